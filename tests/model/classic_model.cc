// SPDX-License-Identifier: Apache-2.0
//
// Implements allocation, freeing and growth by linear search.
#include "classic_model.h"

#include <algorithm>
#include <tuple>

#include "base/units.h"

namespace ashlar::model {

std::optional<uint64_t> ClassicModel::allocate(size_t bytes, StreamId stream) {
  FitRequest wanted = make_request(bytes, stream);
  std::optional<BlockRef> found = search(wanted);
  if (!found) {
    collect_by_age();
    found = grow(wanted);
    if (!found) found = reclaim_and_retry(wanted);
  }
  if (found) return allocate_at(*found, wanted);
  ++ooms_;
  return std::nullopt;
}

bool ClassicModel::may_wait_for_streams(size_t bytes, StreamId stream) const {
  const FitRequest wanted = make_request(bytes, stream);
  if (best_fit(wanted, wanted.list, wanted.expandable)) return false;
  ClassicModel trial = *this;
  (void)trial.search(wanted);
  trial.collect_by_age();
  if (trial.reserved_bytes_ != reserved_bytes_) return true;
  // An upper bound on the new memory that the request needs, whether or not its segment is
  // expandable. If the bound is too high, the run finishes all streams although the engine does not
  // wait for them, which only makes pending blocks complete early.
  const size_t most =
      std::max(wanted.segment_bytes, wanted.bytes + 2 * granule(wanted.list.is_small));
  return trial.is_above_limit(most) || trial.reserved_bytes_ + most > capacity_bytes_;
}

ClassicModel::FitRequest ClassicModel::make_request(size_t bytes, StreamId stream) const {
  FitRequest wanted{bytes, rounded(bytes), 0, stream, {}, options_.expandable_segments};
  wanted.list.is_small = wanted.bytes <= kMiB;
  for (const auto& [id, pool] : pools_) {
    if (pool.routed_stream != stream) continue;
    wanted.list.pool = id;
    if (pool.has_source) wanted.expandable = false;
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
  return fraction_ < 1 && reserved_bytes_ + more_bytes > limit;
}

// Returns the free blocks of the list, or only those of `stream` if it is set, sorted by stream,
// size and address.
std::vector<ClassicModel::BlockRef> ClassicModel::free_blocks_in_order(
    const FreeListKey& list, std::optional<StreamId> stream) const {
  std::vector<BlockRef> places;
  for (size_t s = 0; s < segments_.size(); ++s) {
    const Segment& segment = segments_[s];
    if (segment.list != list || (stream && segment.stream != *stream)) continue;
    for (size_t p = 0; p < segment.blocks.size(); ++p) {
      if (segment.blocks[p].state == BlockState::kFree) places.push_back({s, p});
    }
  }
  std::sort(places.begin(), places.end(), [&](BlockRef a, BlockRef b) {
    return std::make_tuple(segments_[a.segment].stream, block(a).bytes, block(a).address) <
           std::make_tuple(segments_[b.segment].stream, block(b).bytes, block(b).address);
  });
  return places;
}

std::optional<ClassicModel::BlockRef> ClassicModel::best_fit(const FitRequest& wanted,
                                                             const FreeListKey& list,
                                                             bool expandable) const {
  std::vector<BlockRef> places = free_blocks_in_order(list, wanted.stream);
  std::erase_if(places, [&](BlockRef at) {
    return block(at).bytes < wanted.bytes || (segments_[at.segment].expandable && !expandable);
  });
  if (places.empty()) return std::nullopt;
  const auto reach = [&](BlockRef at) {
    const std::vector<ModelBlock>& blocks = segments_[at.segment].blocks;
    const bool grows =
        at.block + 1 < blocks.size() && blocks[at.block + 1].state == BlockState::kUnmapped;
    return block(at).bytes + (grows ? blocks[at.block + 1].bytes : 0);
  };
  size_t chosen = 0;
  while (expandable && chosen + 1 < places.size() &&
         reach(places[chosen + 1]) < reach(places[chosen])) {
    ++chosen;
  }
  const size_t found_bytes = block(places[chosen]).bytes;
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
  if (fraction_ < 1 && options_.garbage_collection_threshold > 0) ++search_counts_[wanted.list];
  return best_fit(wanted, wanted.list, wanted.expandable);
}

uint64_t ClassicModel::allocate_at(BlockRef at, const FitRequest& wanted) {
  Segment& segment = segments_[at.segment];
  const size_t rest = block(at).bytes - wanted.bytes;
  const auto pool = pools_.find(segment.list.pool);
  const bool never = pool != pools_.end() && pool->second.no_split;
  const bool fine = segment.list.is_small || wanted.expandable;
  const bool below_limit = wanted.bytes < options_.max_split_bytes.value_or(SIZE_MAX);
  if (!never && (fine ? rest >= 512 : below_limit && rest > kMiB)) {
    ModelBlock left = block(at);
    left.address += wanted.bytes;
    left.bytes = rest;
    left.search_count_when_freed = search_counts_[segment.list];
    block(at).bytes = wanted.bytes;
    segment.blocks.insert(segment.blocks.begin() + static_cast<ptrdiff_t>(at.block) + 1, left);
  }
  block(at).state = BlockState::kAllocated;
  block(at).requested_bytes = wanted.requested_bytes;
  return block(at).address;
}

void ClassicModel::free(uint64_t address, BlockState state) {
  const BlockRef at = find(address);
  block(at).state = state;
  if (state == BlockState::kFree) free_and_merge(at);
}

void ClassicModel::complete(uint64_t address) { free_and_merge(find(address)); }

// Frees the block and merges it with free neighbours. Returns the merged block.
ClassicModel::BlockRef ClassicModel::free_and_merge(BlockRef at) {
  Segment& segment = segments_[at.segment];
  std::vector<ModelBlock>& blocks = segment.blocks;
  blocks[at.block].state = BlockState::kFree;
  blocks[at.block].requested_bytes = 0;
  if (at.block + 1 < blocks.size() && blocks[at.block + 1].state == BlockState::kFree) {
    blocks[at.block].bytes += blocks[at.block + 1].bytes;
    blocks.erase(blocks.begin() + static_cast<ptrdiff_t>(at.block) + 1);
  }
  if (at.block > 0 && blocks[at.block - 1].state == BlockState::kFree) {
    blocks[at.block - 1].bytes += blocks[at.block].bytes;
    blocks.erase(blocks.begin() + static_cast<ptrdiff_t>(at.block));
    --at.block;
  }
  blocks[at.block].search_count_when_freed = search_counts_[segment.list];
  return at;
}

ClassicModel::BlockRef ClassicModel::find(uint64_t address) const {
  for (size_t s = 0; s < segments_.size(); ++s) {
    for (size_t p = 0; p < segments_[s].blocks.size(); ++p) {
      if (segments_[s].blocks[p].address == address) return {s, p};
    }
  }
  std::abort();  // the test used a block that was never allocated
}

// --- growth

size_t ClassicModel::granule(bool is_small) const {
  return is_small ? 2 * kMiB : options_.large_segment_bytes;
}

std::optional<ClassicModel::BlockRef> ClassicModel::grow(const FitRequest& wanted) {
  if (is_above_limit(wanted.segment_bytes)) return std::nullopt;
  return wanted.expandable ? grow_expandable(wanted) : grow_plain(wanted);
}

std::optional<ClassicModel::BlockRef> ClassicModel::grow_plain(const FitRequest& wanted) {
  if (reserved_bytes_ + wanted.segment_bytes > capacity_bytes_) return std::nullopt;
  const uint64_t base = take_segment_address();
  segments_.push_back({wanted.list, wanted.stream, false, {{base, wanted.segment_bytes}}});
  reserved_bytes_ += wanted.segment_bytes;
  record(TraceAction::kSegmentAlloc, base, wanted.segment_bytes);
  return BlockRef{segments_.size() - 1, 0};
}

std::optional<ClassicModel::BlockRef> ClassicModel::grow_expandable(const FitRequest& wanted) {
  BlockRef at = find_unmapped_range(wanted);
  if (block(at).state == BlockState::kUnmapped) {
    if (!map(at, std::min(block(at).bytes, wanted.bytes))) return std::nullopt;
  }
  while (block(at).bytes < wanted.bytes) {
    BlockRef next{at.segment, at.block + 1};
    if (!map(next, std::min(block(next).bytes, wanted.bytes - block(at).bytes)))
      return std::nullopt;
    at = next;
  }
  return at;
}

// Finds the lowest run of free and unmapped blocks that is large enough and begins with an unmapped
// block, or with a free block followed by an unmapped block. Returns its first block. If there is
// no such run, reserves a new segment.
ClassicModel::BlockRef ClassicModel::find_unmapped_range(const FitRequest& wanted) {
  std::optional<BlockRef> lowest;
  for (size_t s = 0; s < segments_.size(); ++s) {
    const Segment& segment = segments_[s];
    if (segment.list != wanted.list || segment.stream != wanted.stream) continue;
    for (size_t p = 0; p < segment.blocks.size(); ++p) {
      if (segment.blocks[p].state != BlockState::kUnmapped) continue;
      const size_t from = p > 0 && segment.blocks[p - 1].state == BlockState::kFree ? p - 1 : p;
      size_t room = 0;
      for (size_t q = from; q < segment.blocks.size(); ++q) {
        const BlockState state = segment.blocks[q].state;
        if (state != BlockState::kFree && state != BlockState::kUnmapped) break;
        room += segment.blocks[q].bytes;
      }
      const BlockRef here{s, from};
      if (room >= wanted.bytes && (!lowest || block(here).address < block(*lowest).address)) {
        lowest = here;
      }
    }
  }
  if (lowest) return *lowest;
  const size_t step = granule(wanted.list.is_small);
  const size_t reserve = (capacity_bytes_ + capacity_bytes_ / 8 + step - 1) / step * step;
  const uint64_t base = take_segment_address();
  segments_.push_back({wanted.list, wanted.stream, true, {{base, reserve, BlockState::kUnmapped}}});
  return {segments_.size() - 1, 0};
}

uint64_t ClassicModel::take_segment_address() {
  const uint64_t address = segment_addresses_.front();
  segment_addresses_.pop_front();
  return address;
}

// Maps memory at `at`, which then refers to the resulting free block. Returns false if the device
// or the limit is too small.
bool ClassicModel::map(BlockRef& at, size_t bytes) {
  Segment& segment = segments_[at.segment];
  const size_t step = granule(segment.list.is_small);
  const size_t mapped = (bytes + step - 1) / step * step;
  if (reserved_bytes_ + mapped > capacity_bytes_) return false;
  if (!options_.pytorch_compatible && is_above_limit(mapped)) return false;
  reserved_bytes_ += mapped;
  record(TraceAction::kSegmentMap, block(at).address, mapped);
  if (mapped < block(at).bytes) {
    const ModelBlock rest{block(at).address + mapped, block(at).bytes - mapped,
                          BlockState::kUnmapped};
    block(at).bytes = mapped;
    segment.blocks.insert(segment.blocks.begin() + static_cast<ptrdiff_t>(at.block) + 1, rest);
  }
  at = free_and_merge(at);
  return true;
}

AllocatorStats ClassicModel::sums() const {
  AllocatorStats sums;
  for (const Segment& segment : segments_) {
    const bool is_small = segment.list.is_small;
    if (!segment.expandable) sums.segment.increase(is_small, 1);
    for (const ModelBlock& each : segment.blocks) {
      const auto bytes = static_cast<int64_t>(each.bytes);
      if (each.state != BlockState::kUnmapped) sums.reserved_bytes.increase(is_small, bytes);
      if (each.state == BlockState::kAllocated) {
        sums.allocation.increase(is_small, 1);
        sums.allocated_bytes.increase(is_small, bytes);
      }
      if (each.state == BlockState::kAllocated || each.state == BlockState::kPending) {
        sums.active.increase(is_small, 1);
        sums.active_bytes.increase(is_small, bytes);
        sums.requested_bytes.increase(is_small, static_cast<int64_t>(each.requested_bytes));
      }
      if (each.state == BlockState::kFree && !segment.expandable && segment.blocks.size() > 1) {
        sums.inactive_split.increase(is_small, 1);
        sums.inactive_split_bytes.increase(is_small, bytes);
      }
    }
  }
  return sums;
}

}  // namespace ashlar::model
