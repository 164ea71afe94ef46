// SPDX-License-Identifier: Apache-2.0
//
// How well a replay reproduced what was recorded: acts on segments, one by one. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ashlar/trace.h"

namespace ashlar {

// Memory taken from the device or given back.
struct SegmentAct {
  TraceAction action = TraceAction::kSegmentAlloc;
  size_t bytes = 0;
  StreamId stream{};          // as recorded
  uint64_t after_allocs = 0;  // how many allocations came before
  friend bool operator==(const SegmentAct&, const SegmentAct&) = default;
};

// "segment_alloc of 20971520 B on stream 0 after 12 allocations"
std::string describe(const SegmentAct& act);

struct Divergence {
  uint64_t index = 0;  // among the acts
  std::optional<SegmentAct> recorded{};
  std::optional<SegmentAct> replayed{};
};

// In order, by kind, size, stream and position among the allocations. What came after the first
// divergence is compared position by position, too: one odd act need not spoil the rest.
struct Fidelity {
  uint64_t recorded = 0;
  uint64_t matched = 0;
  std::optional<Divergence> first_divergence{};
};

bool is_segment_act(TraceAction action);
std::vector<SegmentAct> segment_acts_of(const std::vector<TraceEntry>& trace);
Fidelity compare(const std::vector<SegmentAct>& recorded, const std::vector<SegmentAct>& replayed);

}  // namespace ashlar
