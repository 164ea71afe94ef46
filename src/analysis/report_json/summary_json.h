// SPDX-License-Identifier: Apache-2.0
//
// What a recorded run was, as recorded: nothing is replayed.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "analysis/recording.h"

namespace ashlar {

// Names are those of the other answers.
nlohmann::ordered_json summary_json(const DeviceRecording& run);

}  // namespace ashlar
