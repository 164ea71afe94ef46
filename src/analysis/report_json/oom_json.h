// SPDX-License-Identifier: Apache-2.0
//
// What `ashlar oom` answers to programs.
#pragma once

#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "analysis/recording.h"
#include "analysis/replay/oom.h"

namespace ashlar {

// `report`: unset where nothing failed.
nlohmann::ordered_json oom_json(const DeviceRecording& recording,
                                const std::optional<OomReport>& report);

}  // namespace ashlar
