// SPDX-License-Identifier: Apache-2.0
//
// Measures how well a replay reproduces a recording, by comparing segment events. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ashlar/trace.h"

namespace ashlar {

// Memory obtained from the device or returned to it.
struct SegmentEvent {
  TraceAction action = TraceAction::kSegmentAlloc;
  size_t bytes = 0;
  StreamId stream{};               // the recorded stream
  uint64_t after_alloc_count = 0;  // number of allocations before the event
  friend bool operator==(const SegmentEvent&, const SegmentEvent&) = default;
};

// Formats an event: "segment_alloc of 20971520 B on stream 0 after 12 allocations".
std::string describe(const SegmentEvent& event);

struct Divergence {
  uint64_t index = 0;  // position among the segment events
  std::optional<SegmentEvent> recorded{};
  std::optional<SegmentEvent> replayed{};
};

// Events match if they have the same index, action, size, stream and position among the
// allocations. Events after the first divergence are compared as well.
struct Fidelity {
  uint64_t recorded_count = 0;
  uint64_t matched_count = 0;
  std::optional<Divergence> first_divergence{};
};

bool is_segment_event(TraceAction action);
std::vector<SegmentEvent> segment_events_of(const std::vector<TraceEntry>& trace);
Fidelity compare(const std::vector<SegmentEvent>& recorded,
                 const std::vector<SegmentEvent>& replayed);

}  // namespace ashlar
