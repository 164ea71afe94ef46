// SPDX-License-Identifier: Apache-2.0
//
// All that one page says about a recorded run: how much it had and needed, where the rest went, who
// had it, and what would have been better, each with a number.
#pragma once

#include <vector>

#include "analysis/allocations.h"
#include "analysis/gap_causes.h"
#include "analysis/lower_bound.h"
#include "analysis/replay/replay.h"
#include "analysis/settings.h"
#include "analysis/timeline.h"
#include "ashlar/snapshot.h"

namespace ashlar {

// The run under another setting, proven by replay.
struct Alternative {
  Setting setting{};
  size_t peak_reserved_bytes = 0;
  size_t oom_count = 0;
};

struct Report {
  ReplayResult replayed{};          // under the recorded settings
  Causes causes{};                  // at the peak of reserved memory
  std::vector<uint32_t> at_peak{};  // the allocations that were there, pending ones included
  LowerBound bound{};
  std::vector<Alternative> alternatives{};  // the least reserved first
  size_t start_reserved_bytes = 0;          // not 0: the history does not reach back to the start
  bool has_stacks = false;
};

// `options` as for replay(), under the settings of the recording.
Result<Report> make_report(const Snapshot& snapshot, const Allocations& allocations,
                           const ReplayOptions& options);

}  // namespace ashlar
