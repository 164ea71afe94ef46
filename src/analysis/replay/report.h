// SPDX-License-Identifier: Apache-2.0
//
// The contents of `ashlar report`: peaks, lower bound, causes of the gap between reserved and
// requested bytes, allocations at the peak, and results of other settings.
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

// The result of a replay under another setting.
struct Alternative {
  Setting setting{};
  size_t peak_reserved_bytes = 0;
  size_t oom_count = 0;
};

struct Report {
  ReplayResult replayed{};  // the replay under the recorded settings
  GapCauses causes{};       // causes at the peak of reserved memory
  std::vector<uint32_t>
      at_peak{};  // indexes of the allocations at the peak, including pending frees
  LowerBound bound{};
  std::vector<Alternative> alternatives{};  // sorted by failures, then by reserved bytes
  size_t initial_reserved_bytes = 0;        // not 0: the beginning of the history is missing
  bool has_stacks = false;
};

// `options` are those of replay(), with the settings of the recording. Errors are those of replay()
// and start_thread().
Result<Report> make_report(const Snapshot& snapshot, const Allocations& allocations,
                           const ReplayOptions& options);

}  // namespace ashlar
