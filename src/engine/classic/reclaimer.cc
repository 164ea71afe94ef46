// SPDX-License-Identifier: Apache-2.0
//
// Selects cached blocks, waits for their streams if allowed, and releases them.
#include "engine/classic/reclaimer.h"

#include <algorithm>
#include <map>

#include "device/relaxed_capture.h"

namespace ashlar::classic {

// Waits first, because Device::free does not necessarily wait for queued work that uses the
// segment. A pass-through source orders the free itself, so this function does not wait for its
// segments.
bool Reclaimer::release_segment(ClassicBlock* block, TrimWait wait) {
  if (!deps_.pending.is_waitable({&deps_.device, block->stream})) return false;
  FreePool& pool = *block->pool;
  PrivatePool* owner = pool.owner();
  const std::shared_ptr<SegmentSource>& source = deps_.pools.source_of(pool);
  const RelaxedCapture relaxed(deps_.device, deps_.pending.capture_count());
  Status freed = relaxed.status();
  const TrimWait allowed = deps_.pools.is_pass_through(pool) ? TrimWait::kNever : wait;
  if (freed.ok()) freed = wait_for_stream(block->stream, allowed);
  if (freed.ok() && source == nullptr) freed = deps_.device.free(block->address);
  if (!freed.ok()) {
    defer_error(freed);
    return false;
  }
  if (source != nullptr) deps_.returns.add(source, {block->address, block->bytes});
  pool.erase(block);
  deps_.tracer.record(TraceAction::kSegmentFree, *block, block->bytes);
  if (owner != nullptr) --owner->segment_count;
  deps_.stats.record_released(*block, block->bytes);
  deps_.heap.destroy(block);
  return true;
}

Status Reclaimer::wait_for_stream(StreamId stream, TrimWait wait) const {
  if (wait == TrimWait::kNever) return {};
  return deps_.pending.wait_for_stream({&deps_.device, stream});
}

void Reclaimer::release_free_blocks(FreePool& pool) {
  std::vector<ClassicBlock*> to_unmap;
  for (ClassicBlock *block = pool.blocks().first(), *next = nullptr; block != nullptr;
       block = next) {
    next = FreePool::Blocks::next(block);
    if (block->expandable != nullptr) {
      to_unmap.push_back(block);
    } else if (!block->is_split()) {
      release_segment(block);
    }
  }
  for (ClassicBlock* block : to_unmap) {
    unmap_inside(block, {block->address, block->bytes}, TrimWait::kForWork);
  }
  deps_.expandables.destroy_empty(pool, deferred_error_);
}

// Unmaps the whole granules of a range of a free block, and returns their size.
size_t Reclaimer::unmap_inside(ClassicBlock* block, AddressRange range, TrimWait wait) {
  if (!deps_.pending.is_waitable({&deps_.device, block->stream})) return 0;
  const AddressRange granules = block->expandable->granules_inside(range);
  if (granules.bytes == 0) return 0;
  const RelaxedCapture relaxed(deps_.device, deps_.pending.capture_count());
  Status unmapped = relaxed.status();
  if (unmapped.ok()) unmapped = wait_for_stream(block->stream, wait);
  if (unmapped.ok()) unmapped = deps_.expandables.unmap(block, granules, deferred_error_);
  if (unmapped.ok()) return granules.bytes;
  defer_error(unmapped);
  return 0;
}

bool Reclaimer::release_oversize(const AllocParams& params) {
  const size_t max_split_bytes = deps_.sizes.max_split_bytes();
  if (max_split_bytes == SIZE_MAX) return false;
  FreePool& pool = *params.pool;
  const StreamId stream = params.request.stream;
  const size_t wanted_bytes = std::max(params.block_bytes, max_split_bytes);
  ClassicBlock* fitting = pool.first_of_at_least(stream, wanted_bytes);
  if (fitting != nullptr && fitting->expandable == nullptr && !fitting->is_split()) {
    return release_segment(fitting);
  }
  size_t released_bytes = 0;
  while (released_bytes < wanted_bytes) {
    ClassicBlock* block = pool.largest(stream);
    if (block == nullptr) return false;
    // Plain blocks of this size are split only by a restore, by `adopt`, or if expandable segments
    // are on.
    if (block->bytes < max_split_bytes || block->expandable != nullptr || block->is_split()) {
      return false;
    }
    released_bytes += block->bytes;
    if (!release_segment(block)) return false;
  }
  return true;
}

void Reclaimer::release_by_age() {
  const double threshold = deps_.options.garbage_collection_threshold;
  if (!deps_.limit.is_set() || threshold <= 0) return;
  const auto target = static_cast<size_t>(threshold * static_cast<double>(deps_.limit.bytes()));
  const size_t reserved_bytes = deps_.stats.reserved_bytes();
  if (reserved_bytes <= target) return;
  const size_t wanted_bytes = reserved_bytes - target;
  size_t released_bytes = 0;
  while (released_bytes < wanted_bytes && release_segments_by_average_age(released_bytes)) {
  }
}

// Releases the free segments that are at least as old as the average free segment. Returns whether
// any was released.
bool Reclaimer::release_segments_by_average_age(size_t& released_bytes) {
  const FreePool& large = deps_.pools.large();
  uint64_t total_age = 0;
  uint64_t count = 0;
  for (const ClassicBlock* block : large.blocks()) {
    if (block->is_split()) continue;
    total_age += large.search_count - block->free_since;
    ++count;
  }
  if (count == 0) return false;
  const double average = static_cast<double>(total_age) / static_cast<double>(count);
  bool any_released = false;
  for (ClassicBlock *block = large.blocks().first(), *next = nullptr; block != nullptr;
       block = next) {
    next = FreePool::Blocks::next(block);
    const auto age = static_cast<double>(large.search_count - block->free_since);
    if (block->is_split() || block->expandable != nullptr || age < average) continue;
    const size_t block_bytes = block->bytes;
    if (!release_segment(block)) continue;
    any_released = true;
    released_bytes += block_bytes;
  }
  return any_released;
}

size_t Reclaimer::release_to(const TrimTarget& target) {
  const std::vector<Candidate> candidates = trim_candidates(target.wait);
  std::vector<size_t> sizes;
  for (const Candidate& candidate : candidates) sizes.push_back(candidate.bytes);
  const size_t reserved_bytes = deps_.stats.reserved_bytes();
  const size_t wanted_bytes = reserved_bytes - std::min(reserved_bytes, target.reserved_bytes);
  std::map<ClassicBlock*, size_t> selected;
  std::vector<ClassicBlock*> in_order;
  for (const size_t i : select_for_trim(sizes, wanted_bytes)) {
    size_t& bytes = selected[candidates[i].block];
    if (bytes == 0) in_order.push_back(candidates[i].block);
    bytes += candidates[i].bytes;
  }
  size_t released_bytes = 0;
  for (ClassicBlock* block : in_order)
    released_bytes += release({block, selected[block]}, target.wait);
  return released_bytes;
}

// Returns the candidates in order of preference: memory of released pools, which will not be
// requested again; then the blocks that have been free for longest, if garbage collection counts
// ages; then the largest blocks, because a device call costs about the same for any size.
std::vector<Reclaimer::Candidate> Reclaimer::trim_candidates(TrimWait wait) {
  std::vector<FreePool*> from;
  for (PrivatePool* pool : deps_.pools.freeable_pools()) {
    from.insert(from.end(), {&pool->small, &pool->large});
  }
  if (deps_.pending.capture_count() == 0) {
    from.insert(from.end(), {&deps_.pools.small(), &deps_.pools.large()});
  }
  std::vector<ClassicBlock*> blocks;
  for (const FreePool* pool : from) {
    for (ClassicBlock* block : pool->blocks()) {
      if (block->expandable != nullptr || !block->is_split()) blocks.push_back(block);
    }
  }
  if (wait == TrimWait::kNever) remove_busy(blocks);
  const auto age = [](const ClassicBlock* block) {
    return block->pool->search_count - block->free_since;
  };
  std::stable_sort(blocks.begin(), blocks.end(), [&](const ClassicBlock* a, const ClassicBlock* b) {
    const bool is_default_a = a->pool->owner() == nullptr;
    const bool is_default_b = b->pool->owner() == nullptr;
    if (is_default_a != is_default_b) return is_default_b;
    return age(a) != age(b) ? age(a) > age(b) : a->bytes > b->bytes;
  });
  std::vector<Candidate> candidates;
  for (ClassicBlock* block : blocks) {
    const ExpandableSegment* segment = block->expandable;
    if (segment == nullptr) {
      candidates.push_back({block, block->bytes});
      continue;
    }
    const size_t granule_bytes = segment->granule_bytes();
    const size_t bytes = segment->granules_inside({block->address, block->bytes}).bytes;
    candidates.insert(candidates.end(), bytes / granule_bytes, {block, granule_bytes});
  }
  return candidates;
}

// Removes blocks that queued work may still use. Only the block's own stream can have such work. A
// driver may synchronize the whole device to free a plain segment, so plain segments stay in the
// list only if every known stream is idle.
void Reclaimer::remove_busy(std::vector<ClassicBlock*>& blocks) const {
  std::map<StreamId, bool> is_idle;
  bool are_all_idle = true;
  for (const auto& [stream, usage] : deps_.stats.stats().streams) {
    const Result<bool> idle = deps_.device.is_idle(stream);
    is_idle[stream] = idle.ok() && *idle;  // a destroyed stream may still have work queued
    are_all_idle = are_all_idle && is_idle[stream];
  }
  std::erase_if(blocks, [&](const ClassicBlock* block) {
    return !(block->expandable != nullptr ? is_idle[block->stream] : are_all_idle);
  });
}

// Releases a plain segment, or the last granules of a block in an expandable segment, because
// allocations take the front of a block. Returns the number of bytes released.
size_t Reclaimer::release(const Candidate& candidate, TrimWait wait) {
  ClassicBlock* block = candidate.block;
  if (block->expandable == nullptr) return release_segment(block, wait) ? candidate.bytes : 0;
  const AddressRange whole = block->expandable->granules_inside({block->address, block->bytes});
  const AddressRange last{whole.begin + (whole.bytes - candidate.bytes), candidate.bytes};
  FreePool& pool = *block->pool;
  const size_t released_bytes = unmap_inside(block, last, wait);
  deps_.expandables.destroy_empty(pool, deferred_error_);
  return released_bytes;
}

}  // namespace ashlar::classic
