// SPDX-License-Identifier: Apache-2.0
//
// A summary of a recording as JSON, without replay.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "analysis/recording.h"

namespace ashlar {

// Returns the summary. Its keys have the same meanings as in the other reports.
nlohmann::ordered_json summary_json(const DeviceRecording& run);

}  // namespace ashlar
