// SPDX-License-Identifier: Apache-2.0
//
// Formats the trials of a tuning run, for `ashlar tune` and `ashlar oom`.
#pragma once

#include <string>
#include <vector>

#include "analysis/recording.h"
#include "analysis/replay/tune.h"

namespace ashlar {

struct TrialTableOptions {
  RecordedAllocator allocator_kind{};  // the allocator that made the recording
  size_t lower_bound_bytes = 0;        // peaks are shown relative to this value
  bool has_min_capacity = false;
};

// Formats one row per trial. Settings that the recorded allocator supports come first; other
// settings follow under their own heading.
std::string trials_as_text(const std::vector<Trial>& trials, const TrialTableOptions& table);

// Compares the paged engine with the recorded setting of a PyTorch run, and states how to use the
// engine if it saves more than 1 % or if the recorded setting runs out of memory. The text ends in
// a line feed. It is empty for Ashlar's own recordings, whose settings include the paged engine,
// and if no trial of the paged engine is comparable.
std::string paged_as_text(const DeviceRecording& run, const TuneResult& result);

}  // namespace ashlar
