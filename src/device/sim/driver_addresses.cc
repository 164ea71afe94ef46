// SPDX-License-Identifier: Apache-2.0
//
// Searches holes, creates and releases chunks, and keeps track of the gaps between chunks.
#include "device/sim/driver_addresses.h"

#include <algorithm>
#include <iterator>

#include "base/align.h"
#include "base/host_memory.h"

namespace ashlar::sim {

DriverAddresses::DriverAddresses(uint64_t begin, uint64_t end) {
  const Range all{align_up(begin, kChunkBytes), align_down(end, kChunkBytes)};
  if (all.begin < all.end) gaps_[all.begin] = all.end;
}

uint64_t DriverAddresses::allocate(size_t bytes) {
  const uint64_t at = next_address(bytes);
  if (at == 0) return 0;
  if (!hole_at(at)) add(*new_chunk_for(bytes), {.age = {++last_number_, 0}});
  allocate_in_hole({at, at + bytes});
  return at;
}

void DriverAddresses::free(uint64_t at) {
  const auto found = allocations_.find(at);
  if (found == allocations_.end()) return;
  const Range range{at, at + found->second};
  const auto chunk_entry = chunks_.find(chunk_at(at)->first);
  Chunk& chunk = chunk_entry->second;
  auto allocation = allocations_.extract(found);
  ScopeGuard restore([&] { allocations_.insert(std::move(allocation)); });
  const Range hole = free_around(chunk_entry, range);
  const bool is_released = !chunk.is_permanent && hole.bytes() == chunk.bytes;
  if (is_released) {
    open_gap(hole);
    restore.dismiss();
    chunks_with_holes_.erase(chunk.age);
    chunks_.erase(chunk_entry);
    return;
  }
  std::set<std::pair<size_t, uint64_t>> merged = {{hole.bytes(), hole.begin}};
  chunks_with_holes_.try_emplace(chunk.age, &chunk);
  restore.dismiss();
  if (hole.begin < range.begin) chunk.holes.erase({range.begin - hole.begin, hole.begin});
  if (range.end < hole.end) chunk.holes.erase({hole.end - range.end, range.end});
  chunk.holes.merge(merged);
}

// --- queries

uint64_t DriverAddresses::next_address(size_t bytes) const {
  if (bytes == 0) return 0;
  if (const Chunk* chunk = chunk_with_room(bytes)) {
    return chunk->holes.lower_bound({bytes, 0})->second;
  }
  return new_chunk_for(bytes).value_or(Range{}).begin;
}

std::optional<DriverAddresses::Range> DriverAddresses::new_chunk_for(size_t bytes) const {
  if (bytes > SIZE_MAX / 2) return std::nullopt;
  const size_t chunk_bytes = align_up(bytes, kChunkBytes);
  const auto fits = [&](const auto& gap) {
    return gap.second - gap.first >= chunk_bytes + kChunkBytes;
  };
  const auto gap = std::find_if(gaps_.rbegin(), gaps_.rend(), fits);
  if (gap == gaps_.rend()) return std::nullopt;
  const uint64_t at = align_down(gap->second - chunk_bytes, kChunkBytes);
  return Range{at, at + chunk_bytes};
}

std::optional<DriverAddresses::Range> DriverAddresses::hole_at(uint64_t at) const {
  const auto chunk = chunk_at(at);
  if (chunk == chunks_.end()) return std::nullopt;
  const Range hole = free_around(chunk, {at, at});
  if (hole.begin > at || hole.end <= at) return std::nullopt;
  return hole;
}

std::optional<DriverAddresses::Range> DriverAddresses::gap_at(uint64_t at) const {
  auto gap = gaps_.upper_bound(at);
  if (gap == gaps_.begin() || (--gap)->second <= at) return std::nullopt;
  return Range{gap->first, gap->second};
}

bool DriverAddresses::overlaps_chunk(const Range& range) const {
  const auto after = chunks_.lower_bound(range.end);
  if (after == chunks_.begin()) return false;
  const auto chunk = std::prev(after);
  return range.begin < chunk->first + chunk->second.bytes;
}

bool DriverAddresses::overlaps_gap(const Range& range) const {
  const auto after = gaps_.lower_bound(range.end);
  return after != gaps_.begin() && range.begin < std::prev(after)->second;
}

DriverAddresses::Chunk* DriverAddresses::chunk_with_room(size_t bytes) const {
  const auto has_room = [&](const auto& chunk) {
    return chunk.second->holes.rbegin()->first >= bytes;
  };
  const auto found = std::find_if(chunks_with_holes_.begin(), chunks_with_holes_.end(), has_room);
  return found == chunks_with_holes_.end() ? nullptr : found->second;
}

DriverAddresses::Chunks::const_iterator DriverAddresses::chunk_at(uint64_t at) const {
  const auto after = chunks_.upper_bound(at);
  if (after == chunks_.begin()) return chunks_.end();
  const auto chunk = std::prev(after);
  return at < chunk->first + chunk->second.bytes ? chunk : chunks_.end();
}

// Returns the free range around `range`, from the previous allocation in the chunk to the next
// allocation.
DriverAddresses::Range DriverAddresses::free_around(Chunks::const_iterator chunk,
                                                    const Range& range) const {
  Range hole{chunk->first, chunk->first + chunk->second.bytes};
  const auto after = allocations_.upper_bound(range.begin);
  if (after != allocations_.end()) hole.end = std::min(hole.end, after->first);
  if (after != allocations_.begin()) {
    const auto before = std::prev(after);
    hole.begin = std::max(hole.begin, before->first + before->second);
  }
  return hole;
}

// --- changes

void DriverAddresses::allocate_in_hole(const Range& range) {
  Chunk& chunk = chunks_.find(chunk_at(range.begin)->first)->second;
  const Range hole = *hole_at(range.begin);
  std::set<std::pair<size_t, uint64_t>> left;
  if (hole.begin < range.begin) left.emplace(range.begin - hole.begin, hole.begin);
  if (range.end < hole.end) left.emplace(hole.end - range.end, range.end);
  allocations_[range.begin] = range.bytes();
  chunk.holes.erase({hole.bytes(), hole.begin});
  chunk.holes.merge(left);
  if (chunk.holes.empty()) chunks_with_holes_.erase(chunk.age);
}

void DriverAddresses::add_chunk(const Range& range, size_t bytes) {
  const Chunk* older = chunk_with_room(bytes);
  const uint64_t number = older == nullptr ? 0 : older->age.first;
  add(range, {.age = {number, ++last_number_}, .is_permanent = true});
}

void DriverAddresses::add(const Range& range, Chunk chunk) {
  chunk.bytes = range.bytes();
  chunk.holes = {{range.bytes(), range.begin}};
  Chunks added;
  Chunk& kept = added[range.begin] = std::move(chunk);
  std::map<Age, Chunk*, std::greater<>> added_by_age = {{kept.age, &kept}};
  close_gap(range);
  chunks_.merge(added);
  chunks_with_holes_.merge(added_by_age);
}

void DriverAddresses::open_gap(Range range) {
  auto first = gaps_.upper_bound(range.begin);
  if (first != gaps_.begin() && std::prev(first)->second >= range.begin) --first;
  auto last = first;
  for (; last != gaps_.end() && last->first <= range.end; ++last) {
    range = {std::min(range.begin, last->first), std::max(range.end, last->second)};
  }
  std::map<uint64_t, uint64_t> opened = {{range.begin, range.end}};
  gaps_.erase(first, last);
  gaps_.merge(opened);
}

void DriverAddresses::close_gap(const Range& range) {
  auto first = gaps_.upper_bound(range.begin);
  if (first != gaps_.begin() && std::prev(first)->second > range.begin) --first;
  std::map<uint64_t, uint64_t> left;
  auto last = first;
  for (; last != gaps_.end() && last->first < range.end; ++last) {
    if (last->first < range.begin) left[last->first] = range.begin;
    if (range.end < last->second) left[range.end] = last->second;
  }
  gaps_.erase(first, last);
  gaps_.merge(left);
}

}  // namespace ashlar::sim
