// SPDX-License-Identifier: Apache-2.0
//
// Compares two lists of events by position.
#include "analysis/replay/fidelity.h"

#include <algorithm>

#include "base/text.h"

namespace ashlar {

std::string describe(const SegmentEvent& event) {
  return text(name(event.action), " of ", event.bytes, " B on stream ", event.stream, " after ",
              event.after_alloc_count, " allocations");
}

bool is_segment_event(TraceAction action) {
  return action == TraceAction::kSegmentAlloc || action == TraceAction::kSegmentFree ||
         action == TraceAction::kSegmentMap || action == TraceAction::kSegmentUnmap;
}

std::vector<SegmentEvent> segment_events_of(const std::vector<TraceEntry>& trace) {
  std::vector<SegmentEvent> events;
  uint64_t alloc_count = 0;
  for (const TraceEntry& entry : trace) {
    // A replay skips allocations of 0 bytes, and does not count them.
    if (entry.action == TraceAction::kAlloc && entry.bytes != 0) ++alloc_count;
    if (!is_segment_event(entry.action)) continue;
    events.push_back({entry.action, entry.bytes, entry.stream, alloc_count});
  }
  return events;
}

Fidelity compare(const std::vector<SegmentEvent>& recorded,
                 const std::vector<SegmentEvent>& replayed) {
  Fidelity fidelity;
  fidelity.recorded_count = recorded.size();
  for (size_t i = 0; i < std::max(recorded.size(), replayed.size()); ++i) {
    Divergence here;
    here.index = i;
    if (i < recorded.size()) here.recorded = recorded[i];
    if (i < replayed.size()) here.replayed = replayed[i];
    if (here.recorded == here.replayed) {
      ++fidelity.matched_count;
    } else if (!fidelity.first_divergence) {
      fidelity.first_divergence = here;
    }
  }
  return fidelity;
}

}  // namespace ashlar
