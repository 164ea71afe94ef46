// SPDX-License-Identifier: Apache-2.0
//
// The JSON of `ashlar leaks`.
#pragma once

#include <functional>

#include <nlohmann/json_fwd.hpp>

#include "analysis/recording.h"
#include "analysis/training/leaks.h"

namespace ashlar {

// Calls find_leaks() with the iterations and the stack numbers of the recording. `keep_going` as in
// LeakOptions.
LeakReport leaks_of(const DeviceRecording& run, StackDetail detail = StackDetail::kUserCode,
                    const std::function<bool()>& keep_going = {});

// `detail` is that of the stack numbers of `leaks`.
nlohmann::ordered_json leaks_json(const DeviceRecording& run, const LeakReport& leaks,
                                  StackDetail detail = StackDetail::kUserCode);

}  // namespace ashlar
