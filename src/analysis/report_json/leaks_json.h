// SPDX-License-Identifier: Apache-2.0
//
// The JSON of `ashlar leaks`.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "analysis/leaks.h"
#include "analysis/recording.h"

namespace ashlar {

nlohmann::ordered_json leaks_json(const DeviceRecording& run, const LeakReport& leaks);

}  // namespace ashlar
