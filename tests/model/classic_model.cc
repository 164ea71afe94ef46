// SPDX-License-Identifier: Apache-2.0
//
// Implements allocation and freeing by linear search, and growth.
#include "classic_model.h"

#include <algorithm>
#include <tuple>

#include "base/units.h"

namespace ashlar::model {

std::optional<uint64_t> ClassicModel::allocate(size_t bytes, StreamId stream) {
  const FitRequest wanted = wanted_for(bytes, stream);
  std::optional<BlockRef> found = search(wanted);
  if (!found) {
    collect_by_age();
    found = grow(wanted);
    if (!found) found = climb_reclaim_ladder(wanted);
  }
  if (found) return hand_out(*found, wanted);
  ++ooms_;
  return std::nullopt;
}

bool ClassicModel::would_climb_ladder(size_t bytes, StreamId stream) const {
  const FitRequest wanted = wanted_for(bytes, stream);
  if (best_fit(wanted, wanted.list, options_.expandable_segments)) return false;
  ClassicModel trial = *this;
  (void)trial.search(wanted);
  trial.collect_by_age();
  if (trial.held_bytes_ != held_bytes_) return true;
  // An upper bound for expandable segments. Climbing the ladder needlessly costs only a pending
  // block or two.
  const size_t most =
      std::max(wanted.segment_bytes, wanted.bytes + 2 * granule(wanted.list.is_small));
  return trial.is_above_limit(most) || trial.held_bytes_ + most > capacity_bytes_;
}

ClassicModel::FitRequest ClassicModel::wanted_for(size_t bytes, StreamId stream) const {
  FitRequest wanted{bytes, rounded(bytes), 0, stream, {}};
  wanted.list.is_small = wanted.bytes <= kMiB;
  for (const auto& [id, pool] : pools_) {
    if (pool.routed == stream) wanted.list.pool = id;
  }
  wanted.segment_bytes = wanted.list.is_small ? 2 * kMiB
                         : wanted.bytes < 10 * kMiB
                             ? options_.large_segment_bytes
                             : (wanted.bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
  return wanted;
}

size_t ClassicModel::rounded(size_t bytes) const {
  if (bytes < 512) return 512;
  size_t power = 1;
  size_t log2 = 0;
  while (power * 2 <= bytes) {
    power *= 2;
    ++log2;
  }
  const size_t slot = log2 < 20 ? 0 : std::min<size_t>(log2 - 20, 15);
  const size_t divisions = options_.roundup_power2_divisions[slot];
  if (divisions > 1 && bytes > 512 * divisions) {
    if (bytes == power) return bytes;
    const size_t step = power / divisions;
    return (bytes + step - 1) / step * step;
  }
  return (bytes + 511) / 512 * 512;
}

bool ClassicModel::is_above_limit(size_t more_bytes) const {
  const auto limit = static_cast<size_t>(fraction_ * static_cast<double>(capacity_bytes_));
  return fraction_ < 1 && held_bytes_ + more_bytes > limit;
}

// The free blocks, sorted by stream, size and address.
std::vector<ClassicModel::BlockRef> ClassicModel::free_blocks_in_order(
    const List& list, std::optional<StreamId> stream) const {
  std::vector<BlockRef> places;
  for (size_t s = 0; s < segments_.size(); ++s) {
    const Segment& segment = segments_[s];
    if (segment.list != list || (stream && segment.stream != *stream)) continue;
    for (size_t p = 0; p < segment.parts.size(); ++p) {
      if (segment.parts[p].state == State::kFree) places.push_back({s, p});
    }
  }
  std::sort(places.begin(), places.end(), [&](BlockRef a, BlockRef b) {
    return std::make_tuple(segments_[a.segment].stream, part(a).bytes, part(a).address) <
           std::make_tuple(segments_[b.segment].stream, part(b).bytes, part(b).address);
  });
  return places;
}

std::optional<ClassicModel::BlockRef> ClassicModel::best_fit(const FitRequest& wanted,
                                                             const List& list,
                                                             bool expandable) const {
  std::vector<BlockRef> places = free_blocks_in_order(list, wanted.stream);
  std::erase_if(places, [&](BlockRef at) {
    return part(at).bytes < wanted.bytes || (segments_[at.segment].expandable && !expandable);
  });
  if (places.empty()) return std::nullopt;
  const auto reach = [&](BlockRef at) {
    const std::vector<Part>& parts = segments_[at.segment].parts;
    const bool grows = at.part + 1 < parts.size() && parts[at.part + 1].state == State::kUnmapped;
    return part(at).bytes + (grows ? parts[at.part + 1].bytes : 0);
  };
  size_t chosen = 0;
  while (expandable && chosen + 1 < places.size() &&
         reach(places[chosen + 1]) < reach(places[chosen])) {
    ++chosen;
  }
  const size_t found_bytes = part(places[chosen]).bytes;
  if (options_.max_split_bytes) {
    const size_t limit = *options_.max_split_bytes;
    const size_t slack =
        options_.max_non_split_rounding_bytes.value_or(options_.large_segment_bytes);
    if (wanted.bytes < limit && found_bytes >= limit) return std::nullopt;
    if (wanted.bytes >= limit && found_bytes >= wanted.bytes + slack) return std::nullopt;
  }
  return places[chosen];
}

std::optional<ClassicModel::BlockRef> ClassicModel::search(const FitRequest& wanted) {
  if (fraction_ < 1 && options_.garbage_collection_threshold > 0) ++searches_[wanted.list];
  return best_fit(wanted, wanted.list, options_.expandable_segments);
}

uint64_t ClassicModel::hand_out(BlockRef at, const FitRequest& wanted) {
  Segment& segment = segments_[at.segment];
  const size_t rest = part(at).bytes - wanted.bytes;
  const auto pool = pools_.find(segment.list.pool);
  const bool never = pool != pools_.end() && pool->second.no_split;
  const bool fine = segment.list.is_small || options_.expandable_segments;
  const bool below_limit = wanted.bytes < options_.max_split_bytes.value_or(SIZE_MAX);
  if (!never && (fine ? rest >= 512 : below_limit && rest > kMiB)) {
    Part left = part(at);
    left.address += wanted.bytes;
    left.bytes = rest;
    left.since = searches_[segment.list];
    part(at).bytes = wanted.bytes;
    segment.parts.insert(segment.parts.begin() + static_cast<ptrdiff_t>(at.part) + 1, left);
  }
  part(at).state = State::kAllocated;
  part(at).requested_bytes = wanted.requested_bytes;
  return part(at).address;
}

void ClassicModel::free(uint64_t address, State state) {
  const BlockRef at = find(address);
  part(at).state = state;
  if (state == State::kFree) make_free(at);
}

void ClassicModel::complete(uint64_t address) { make_free(find(address)); }

// Merges with free neighbours and returns the result.
ClassicModel::BlockRef ClassicModel::make_free(BlockRef at) {
  Segment& segment = segments_[at.segment];
  std::vector<Part>& parts = segment.parts;
  parts[at.part].state = State::kFree;
  parts[at.part].requested_bytes = 0;
  if (at.part + 1 < parts.size() && parts[at.part + 1].state == State::kFree) {
    parts[at.part].bytes += parts[at.part + 1].bytes;
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(at.part) + 1);
  }
  if (at.part > 0 && parts[at.part - 1].state == State::kFree) {
    parts[at.part - 1].bytes += parts[at.part].bytes;
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(at.part));
    --at.part;
  }
  parts[at.part].since = searches_[segment.list];
  return at;
}

ClassicModel::BlockRef ClassicModel::find(uint64_t address) const {
  for (size_t s = 0; s < segments_.size(); ++s) {
    for (size_t p = 0; p < segments_[s].parts.size(); ++p) {
      if (segments_[s].parts[p].address == address) return {s, p};
    }
  }
  std::abort();  // the test used a block that was never allocated
}

// Growth.

size_t ClassicModel::granule(bool is_small) const {
  return is_small ? 2 * kMiB : options_.large_segment_bytes;
}

std::optional<ClassicModel::BlockRef> ClassicModel::grow(const FitRequest& wanted) {
  if (is_above_limit(wanted.segment_bytes)) return std::nullopt;
  return options_.expandable_segments ? grow_expandable(wanted) : grow_plain(wanted);
}

std::optional<ClassicModel::BlockRef> ClassicModel::grow_plain(const FitRequest& wanted) {
  if (held_bytes_ + wanted.segment_bytes > capacity_bytes_) return std::nullopt;
  const uint64_t base = take_place();
  segments_.push_back({wanted.list, wanted.stream, false, {{base, wanted.segment_bytes}}});
  held_bytes_ += wanted.segment_bytes;
  act(TraceAction::kSegmentAlloc, base, wanted.segment_bytes);
  return BlockRef{segments_.size() - 1, 0};
}

std::optional<ClassicModel::BlockRef> ClassicModel::grow_expandable(const FitRequest& wanted) {
  BlockRef at = find_room(wanted);
  if (part(at).state == State::kUnmapped) {
    if (!map(at, std::min(part(at).bytes, wanted.bytes))) return std::nullopt;
  }
  while (part(at).bytes < wanted.bytes) {
    BlockRef next{at.segment, at.part + 1};
    if (!map(next, std::min(part(next).bytes, wanted.bytes - part(at).bytes))) return std::nullopt;
    at = next;
  }
  return at;
}

// The lowest unmapped part that, possibly with the free part before it, has room.
ClassicModel::BlockRef ClassicModel::find_room(const FitRequest& wanted) {
  std::optional<BlockRef> lowest;
  for (size_t s = 0; s < segments_.size(); ++s) {
    const Segment& segment = segments_[s];
    if (segment.list != wanted.list || segment.stream != wanted.stream) continue;
    for (size_t p = 0; p < segment.parts.size(); ++p) {
      if (segment.parts[p].state != State::kUnmapped) continue;
      const size_t from = p > 0 && segment.parts[p - 1].state == State::kFree ? p - 1 : p;
      size_t room = 0;
      for (size_t q = from; q < segment.parts.size(); ++q) {
        const State state = segment.parts[q].state;
        if (state != State::kFree && state != State::kUnmapped) break;
        room += segment.parts[q].bytes;
      }
      const BlockRef here{s, from};
      if (room >= wanted.bytes && (!lowest || part(here).address < part(*lowest).address)) {
        lowest = here;
      }
    }
  }
  if (lowest) return *lowest;
  const size_t step = granule(wanted.list.is_small);
  const size_t reserve = (capacity_bytes_ + capacity_bytes_ / 8 + step - 1) / step * step;
  const uint64_t base = take_place();
  segments_.push_back({wanted.list, wanted.stream, true, {{base, reserve, State::kUnmapped}}});
  return {segments_.size() - 1, 0};
}

uint64_t ClassicModel::take_place() {
  const uint64_t place = segment_addresses_.front();
  segment_addresses_.pop_front();
  return place;
}

// `at` becomes the resulting free part.
bool ClassicModel::map(BlockRef& at, size_t bytes) {
  Segment& segment = segments_[at.segment];
  const size_t step = granule(segment.list.is_small);
  const size_t mapped = (bytes + step - 1) / step * step;
  if (held_bytes_ + mapped > capacity_bytes_) return false;
  if (!options_.pytorch_compatible && is_above_limit(mapped)) return false;
  held_bytes_ += mapped;
  act(TraceAction::kSegmentMap, part(at).address, mapped);
  if (mapped < part(at).bytes) {
    const Part rest{part(at).address + mapped, part(at).bytes - mapped, State::kUnmapped};
    part(at).bytes = mapped;
    segment.parts.insert(segment.parts.begin() + static_cast<ptrdiff_t>(at.part) + 1, rest);
  }
  at = make_free(at);
  return true;
}

AllocatorStats ClassicModel::sums() const {
  AllocatorStats sums;
  for (const Segment& segment : segments_) {
    const bool is_small = segment.list.is_small;
    if (!segment.expandable) sums.segment.rise(is_small, 1);
    for (const Part& each : segment.parts) {
      const auto bytes = static_cast<int64_t>(each.bytes);
      if (each.state != State::kUnmapped) sums.reserved_bytes.rise(is_small, bytes);
      if (each.state == State::kAllocated) {
        sums.allocation.rise(is_small, 1);
        sums.allocated_bytes.rise(is_small, bytes);
      }
      if (each.state == State::kAllocated || each.state == State::kPending) {
        sums.active.rise(is_small, 1);
        sums.active_bytes.rise(is_small, bytes);
        sums.requested_bytes.rise(is_small, static_cast<int64_t>(each.requested_bytes));
      }
      if (each.state == State::kFree && !segment.expandable && segment.parts.size() > 1) {
        sums.inactive_split.rise(is_small, 1);
        sums.inactive_split_bytes.rise(is_small, bytes);
      }
    }
  }
  return sums;
}

}  // namespace ashlar::model
