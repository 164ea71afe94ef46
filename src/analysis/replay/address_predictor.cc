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

AddressPredictor::AddressPredictor(const std::vector<TraceEntry>& trace)
    : inferred_(infer_allocations(trace)),
      addresses_(DriverAddresses::kChunkBytes, inferred_.end) {}

void AddressPredictor::advance_to(uint32_t entry) {
  while (next_ < inferred_.events.size() && inferred_.events[next_].entry <= entry) {
    apply(inferred_.events[next_++]);
  }
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
