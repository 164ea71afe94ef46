// SPDX-License-Identifier: Apache-2.0
//
// Analyses of a recording as functions that return JSON text. The viewer's server calls them and
// forwards the text without interpreting it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "analysis/recording.h"
#include "ashlar/status.h"

namespace ashlar {

// Long analyses poll this, possibly from several threads, and return kTimeout soon after it returns
// false. Short ones (training.json, annotate.json) ignore it.
using KeepGoing = std::function<bool()>;

struct JsonAnalysis {
  std::string activity{};  // progress message, such as "replaying the run under other settings"
  std::function<Result<std::string>(const DeviceRecording& run, const KeepGoing& keep_going)>
      compute{};
};

// Source text is available for at most this many files: those with the most bytes at the peak.
inline constexpr uint32_t kMaxSourceFiles = 200;

struct JsonAnalyses {
  // Keyed by the name of the result, such as "causes.json".
  std::map<std::string, JsonAnalysis, std::less<>> by_name{};
  // Returns the source text of a file as JSON. `file` is its index in "files" of annotate.json.
  // Null: sources are not available.
  std::function<Result<std::string>(const DeviceRecording& run, uint32_t file)> source{};
};

}  // namespace ashlar
