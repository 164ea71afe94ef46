// SPDX-License-Identifier: Apache-2.0
//
// The contents of `ashlar report`: peaks, lower bound, causes of the gap between reserved and
// requested bytes, allocations at the peak, and results of other settings.
#pragma once

#include <optional>
#include <vector>

#include "analysis/gap_causes.h"
#include "analysis/lower_bound.h"
#include "analysis/recording.h"
#include "analysis/replay/replay.h"
#include "analysis/settings.h"
#include "analysis/timeline.h"

namespace ashlar {

// The result of a replay under another setting.
struct Alternative {
  Setting setting{};
  size_t peak_reserved_bytes = 0;
  size_t oom_count = 0;
};

struct Report {
  // Values of the recording. `causes` and `at_peak` refer to Timeline::reserved_peak or, without a
  // history, to the final state.
  size_t peak_requested_bytes = 0;
  size_t peak_reserved_bytes = 0;
  std::optional<uint32_t> peak_entry{};  // unset: before the first entry, or no history
  std::optional<Growth> last_growth{};   // Timeline::last_growth
  GapCauses causes{};
  std::vector<uint32_t> at_peak{};  // indexes of live allocations and pending frees
  // If no request failed, packed_bytes is lowered to the recorded peak if necessary.
  LowerBound bound{};
  size_t initial_reserved_bytes = 0;  // not 0: the beginning of the history is missing
  size_t releasable_bytes = 0;        // see releasable_bytes()
  size_t oom_count = 0;
  bool has_stacks = false;

  std::optional<ReplayResult> replayed{};   // under the recorded settings; unset: no history
  std::vector<Alternative> alternatives{};  // sorted by failures, then by reserved bytes
  std::vector<Setting> incomparable{};      // settings whose replay cannot start as recorded
};

// Returns whether the peaks of replays under other settings can be compared with the recorded peak:
// reserved memory grew during the trace, and a replay can start from the recorded layout.
bool can_compare_settings(const Report& report);

// `options` are those of replay(), with the settings of the recording. Errors are those of replay()
// and start_thread().
Result<Report> make_report(const DeviceRecording& run, const ReplayOptions& options);

}  // namespace ashlar
