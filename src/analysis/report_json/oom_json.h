// SPDX-License-Identifier: Apache-2.0
//
// The JSON of `ashlar oom`.
#pragma once

#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "analysis/recording.h"
#include "analysis/replay/oom.h"

namespace ashlar {

// `report` is unset if no allocation failed.
nlohmann::ordered_json oom_json(const DeviceRecording& recording,
                                const std::optional<OomReport>& report);

}  // namespace ashlar
