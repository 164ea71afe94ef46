// SPDX-License-Identifier: Apache-2.0
//
// The viewer's causes.json: the results of `ashlar report` and `ashlar tune` in one object.
#pragma once

#include <functional>

#include <nlohmann/json.hpp>

#include "analysis/recording.h"
#include "ashlar/status.h"

namespace ashlar {

// Returns the peaks, causes and advice of `ashlar report --json` and the results of
// `ashlar tune --json`, and takes as long as both commands. `keep_going` is polled from several
// threads; if it returns false, the result is kTimeout. Other errors are those of make_report() and
// tune().
// REQUIRES: recording.has_history().
Result<nlohmann::ordered_json> causes_json(const DeviceRecording& recording,
                                           const std::function<bool()>& keep_going);

}  // namespace ashlar
