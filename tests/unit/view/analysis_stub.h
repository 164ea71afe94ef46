// SPDX-License-Identifier: Apache-2.0
//
// Stub analyses for tests of the viewer, which forwards their results.
#pragma once

#include <string>
#include <utility>

#include "analysis/json_analysis.h"

namespace ashlar::view {

// Returns only the analysis "causes.json", which calls `compute(run, keep_going)`.
template <typename Compute>
JsonAnalyses causes_from(Compute compute) {
  JsonAnalyses analyses;
  analyses.by_name["causes.json"] = {.activity = "replaying", .compute = std::move(compute)};
  return analyses;
}

// Returns only the analysis "causes.json", which returns `body` for recordings with a history.
inline JsonAnalyses fixed_causes(std::string body) {
  return causes_from([body = std::move(body)](const DeviceRecording& run,
                                              const KeepGoing&) -> Result<std::string> {
    if (!run.has_history()) return Status::unsupported("no history");
    return body;
  });
}

}  // namespace ashlar::view
