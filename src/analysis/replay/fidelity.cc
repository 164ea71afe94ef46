// SPDX-License-Identifier: Apache-2.0
//
// Two lists, side by side.
#include "analysis/replay/fidelity.h"

#include <algorithm>

#include "base/text.h"

namespace ashlar {

std::string describe(const SegmentAct& act) {
  return text(name(act.action), " of ", act.bytes, " B on stream ", act.stream, " after ",
              act.after_allocs, " allocations");
}

bool is_segment_act(TraceAction action) {
  return action == TraceAction::kSegmentAlloc || action == TraceAction::kSegmentFree ||
         action == TraceAction::kSegmentMap || action == TraceAction::kSegmentUnmap;
}

std::vector<SegmentAct> segment_acts_of(const std::vector<TraceEntry>& trace) {
  std::vector<SegmentAct> acts;
  uint64_t alloc_count = 0;
  for (const TraceEntry& entry : trace) {
    if (entry.action == TraceAction::kAlloc) ++alloc_count;
    if (!is_segment_act(entry.action)) continue;
    acts.push_back({entry.action, entry.bytes, entry.stream, alloc_count});
  }
  return acts;
}

Fidelity compare(const std::vector<SegmentAct>& recorded, const std::vector<SegmentAct>& replayed) {
  Fidelity fidelity;
  fidelity.recorded = recorded.size();
  for (size_t i = 0; i < std::max(recorded.size(), replayed.size()); ++i) {
    Divergence here;
    here.index = i;
    if (i < recorded.size()) here.recorded = recorded[i];
    if (i < replayed.size()) here.replayed = replayed[i];
    if (here.recorded == here.replayed) {
      ++fidelity.matched;
    } else if (!fidelity.first_divergence) {
      fidelity.first_divergence = here;
    }
  }
  return fidelity;
}

}  // namespace ashlar
