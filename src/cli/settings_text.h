// SPDX-License-Identifier: Apache-2.0
//
// Settings that were tried, for people: what `ashlar tune` and `ashlar oom` share.
#pragma once

#include <string>
#include <vector>

#include "analysis/replay/tune.h"

namespace ashlar {

struct TrialTable {
  RecordedAllocator allocator_kind{};  // of the run
  size_t lower_bound_bytes = 0;        // that peaks are compared with
  bool has_min_capacity = false;
};

// Those that allocators of the allocator_kind can be told come first, the others below a heading.
std::string trials_as_text(const std::vector<Trial>& trials, const TrialTable& table);

// What the paged engine would have done for a run of PyTorch's, and who gets it; ends in a line
// feed. Empty for runs of Ashlar's own, whose settings include it.
std::string paged_as_text(const TuneResult& result);

}  // namespace ashlar
