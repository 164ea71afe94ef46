// SPDX-License-Identifier: Apache-2.0
//
// The JSON of `ashlar oom`.
#pragma once

#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "analysis/recording.h"
#include "analysis/replay/oom.h"

namespace ashlar {

// `report` is unset if no allocation failed. `given_limit` is the user's memory limit, if any.
nlohmann::ordered_json oom_json(const DeviceRecording& recording,
                                const std::optional<OomReport>& report,
                                const std::optional<OomLimit>& given_limit = {});

}  // namespace ashlar
