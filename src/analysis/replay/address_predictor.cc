// SPDX-License-Identifier: Apache-2.0
//
// What was unseen asks the driver or the kernel like everybody else: it lies where it lay if that
// is free, and otherwise where the rule puts it.
#include "analysis/replay/address_predictor.h"

#include <iterator>
#include <optional>

namespace ashlar {

using sim::DriverAddresses;

LikelyAddresses::LikelyAddresses(const std::vector<TraceEntry>& trace)
    : unseen_(find_unseen(trace)), addresses_(DriverAddresses::kChunkBytes, unseen_.end) {}

void LikelyAddresses::go_to(uint32_t entry) {
  while (next_ < unseen_.acts.size() && unseen_.acts[next_].entry <= entry) {
    perform(unseen_.acts[next_++]);
  }
}

void LikelyAddresses::perform(const UnseenAct& act) {
  const Range range = where_now(act.at);
  const bool is_free = !addresses_.touches_chunk(range);
  switch (act.kind) {
    case UnseenAct::Kind::kTook: {
      const std::optional<Range> hole = addresses_.hole_at(range.begin);
      if (hole && hole->contains(range)) {
        addresses_.take_from_hole(range);
      } else {
        addresses_.take(range.bytes());
      }
      return;
    }
    case UnseenAct::Kind::kRevealed:
      if (is_free) addresses_.add_chunk(range, act.bytes);
      return;
    case UnseenAct::Kind::kOpenedGap:
      if (is_free) addresses_.open_gap(range);
      return;
    case UnseenAct::Kind::kClosedGap: {
      const std::optional<Range> gap = addresses_.gap_at(range.begin);
      const bool is_there = gap && gap->contains(range);
      const std::optional<Range> other = addresses_.new_chunk_for(range.bytes());
      if (!is_there && other) moved_[range.begin] = {range.bytes(), other->begin};
      addresses_.close_gap(is_there || !other ? range : *other);
      return;
    }
  }
}

LikelyAddresses::Range LikelyAddresses::where_now(const Range& recorded) const {
  const auto after = moved_.upper_bound(recorded.begin);
  if (after == moved_.begin()) return recorded;
  const auto& [begin, moved] = *std::prev(after);
  if (recorded.end > begin + moved.bytes) return recorded;
  const uint64_t at = moved.to + (recorded.begin - begin);
  return {at, at + recorded.bytes()};
}

}  // namespace ashlar
