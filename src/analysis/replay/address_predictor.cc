// SPDX-License-Identifier: Apache-2.0
//
// Applies each inferred event to the modelled address space, at its recorded address if possible.
// Otherwise, the driver's rule places allocations and closed gaps, and found space and opened gaps
// are dropped.
#include "analysis/replay/address_predictor.h"

#include <iterator>
#include <optional>

namespace ashlar {

using sim::DriverAddresses;

AddressPredictor::AddressPredictor(const std::vector<TraceEntry>& trace,
                                   const std::vector<SnapshotSegment>& initial)
    : AddressPredictor(segment_history(trace, initial)) {}

AddressPredictor::AddressPredictor(SegmentHistory history)
    : entries_(std::move(history.entries)),
      inferred_(infer_allocations(history.events)),
      addresses_(DriverAddresses::kChunkBytes, inferred_.end) {
  for (size_t i = 0; i < history.initial_count; ++i) {
    for (; next_ < inferred_.events.size() && inferred_.events[next_].entry <= i; ++next_) {
      apply(inferred_.events[next_]);
    }
    const TraceEntry& segment = history.events[i];
    if (addresses_.next_address(segment.bytes) == segment.address.value()) {
      addresses_.allocate(segment.bytes);
    }
  }
}

void AddressPredictor::advance_to(uint32_t entry) {
  while (next_ < inferred_.events.size() && entries_[inferred_.events[next_].entry] <= entry) {
    apply(inferred_.events[next_++]);
  }
}

AddressPredictor::SegmentHistory AddressPredictor::segment_history(
    const std::vector<TraceEntry>& trace, const std::vector<SnapshotSegment>& initial) {
  SegmentHistory history;
  for (const SnapshotSegment& segment : initial) {
    TraceEntry entry;
    entry.action = TraceAction::kSegmentAlloc;
    entry.address = segment.address;
    entry.bytes = segment.total_bytes;
    history.events.push_back(entry);
    history.entries.push_back(0);
  }
  history.initial_count = initial.size();
  for (uint32_t i = 0; i < trace.size(); ++i) {
    const TraceAction action = trace[i].action;
    if (action != TraceAction::kSegmentAlloc && action != TraceAction::kSegmentFree) continue;
    history.events.push_back(trace[i]);
    history.entries.push_back(i);
  }
  return history;
}

void AddressPredictor::apply(const InferredEvent& event) {
  const Range range = current_range(event.range);
  const bool is_free = !addresses_.overlaps_chunk(range);
  switch (event.kind) {
    case InferredEvent::Kind::kAllocated: {
      const std::optional<Range> hole = addresses_.hole_at(range.begin);
      if (hole && hole->contains(range)) {
        addresses_.allocate_in_hole(range);
      } else {
        addresses_.allocate(range.bytes());
      }
      return;
    }
    case InferredEvent::Kind::kFoundSpace:
      if (is_free) addresses_.add_chunk(range, event.bytes);
      return;
    case InferredEvent::Kind::kGapOpened:
      if (is_free) addresses_.open_gap(range);
      return;
    case InferredEvent::Kind::kGapClosed: {
      const std::optional<Range> gap = addresses_.gap_at(range.begin);
      const bool exists = gap && gap->contains(range);
      const std::optional<Range> other = addresses_.new_chunk_for(range.bytes());
      if (!exists && other) moved_[range.begin] = {range.bytes(), other->begin};
      addresses_.close_gap(exists || !other ? range : *other);
      return;
    }
  }
}

AddressPredictor::Range AddressPredictor::current_range(const Range& recorded) const {
  const auto after = moved_.upper_bound(recorded.begin);
  if (after == moved_.begin()) return recorded;
  const auto& [begin, moved] = *std::prev(after);
  if (recorded.end > begin + moved.bytes) return recorded;
  const uint64_t at = moved.new_begin + (recorded.begin - begin);
  return {at, at + recorded.bytes()};
}

}  // namespace ashlar
