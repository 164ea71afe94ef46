// SPDX-License-Identifier: Apache-2.0
//
// Finds or creates a segment for a request, maps its front part, and unmaps and destroys segments.
#include "engine/classic/expandable_segments.h"

#include <algorithm>

#include "base/align.h"
#include "base/host_memory.h"
#include "base/text.h"
#include "engine/classic/pool_table.h"

namespace ashlar::classic {

Status limit_exceeded_error() { return Status::out_of_memory("above the limit of this process"); }

ExpandableSegments::ExpandableSegments(const Dependencies& deps)
    : deps_(deps),
      reserve_policy_(deps.options, deps.limit.capacity_bytes()),
      accessors_{deps.device.properties().index} {}

std::vector<ExpandableSegmentStats> ExpandableSegments::usage() const {
  std::vector<ExpandableSegmentStats> uses;
  for (const auto& segment : segments_) {
    uses.push_back(
        {segment->stream(), segment->is_small(), segment->range(), segment->mapped_bytes()});
  }
  return uses;
}

Result<ClassicBlock*> ExpandableSegments::grow(const AllocParams& params) {
  Result<ClassicBlock*> found = find_or_create_room(params);
  if (!found.ok()) return found;
  ClassicBlock* block = *found;
  if (!block->is_mapped()) {
    Status mapped = map_front(block, std::min(block->bytes, params.block_bytes));
    if (!mapped.ok()) return mapped;
  }
  // Map as much of the following blocks as is missing. Each newly mapped part merges with the free
  // block before it.
  while (block->bytes < params.block_bytes) {
    ClassicBlock* next = block->next;
    Status mapped = map_front(next, std::min(next->bytes, params.block_bytes - block->bytes));
    if (!mapped.ok()) return mapped;
    block = next;
  }
  params.pool->erase(block);
  return block;
}

// Returns the first block of the lowest run of free and unmapped blocks that is large enough, so
// that holes are refilled first. Creates a segment if there is no such run.
Result<ClassicBlock*> ExpandableSegments::find_or_create_room(const AllocParams& params) {
  const auto is_usable = [](const ClassicBlock* block) {
    return block != nullptr && !block->is_active();
  };
  const auto has_room = [&](const ClassicBlock* block) {
    size_t bytes = 0;
    for (; bytes < params.block_bytes && is_usable(block); block = block->next)
      bytes += block->bytes;
    return bytes >= params.block_bytes;
  };
  for (ClassicBlock* unmapped = params.pool->first_unmapped(params.request.stream);
       unmapped != nullptr; unmapped = FreePool::next_unmapped(unmapped)) {
    ClassicBlock* candidate = is_usable(unmapped->previous) ? unmapped->previous : unmapped;
    if (has_room(candidate)) return candidate;
  }
  return create_segment(params);
}

// The new segment consists of one unmapped block.
Result<ClassicBlock*> ExpandableSegments::create_segment(const AllocParams& params) {
  const StreamId stream = params.request.stream;
  const bool is_small = params.pool->is_small();
  const size_t granule = granule_bytes(is_small);
  const size_t reserve = reserve_policy_.reserve_bytes(stream, granule);
  if (reserve < params.block_bytes) {
    return Status::out_of_memory(text("larger than an expandable segment, ", reserve, " B"));
  }
  const BlockStore::Reservation for_segment = deps_.heap.reserve_segment(stream);
  reserve_amortized(segments_, segments_.size() + 1);
  Device& device = deps_.device;
  const bool can_export =
      deps_.options.shareable_expandable_segments && device.properties().can_export_fd;
  Result<std::unique_ptr<ExpandableSegment>> segment = ExpandableSegment::create(
      device, {stream, is_small, granule, reserve, can_export}, accessors_);
  if (!segment.ok()) return segment.status();
  ClassicBlock* block = deps_.heap.create(params, (*segment)->range());
  block->expandable = segment->get();
  block->state = BlockState::kUnmapped;
  params.pool->insert_unmapped(block);
  segments_.push_back(*std::move(segment));
  return block;
}

// Maps memory to the front of an unmapped block. The mapped part becomes free and merges with its
// neighbours.
Status ExpandableSegments::map_front(ClassicBlock* block, size_t bytes) {
  const DeviceAddress mapped_from = block->address;
  const size_t mapped_bytes = round_up(bytes, block->expandable->granule_bytes());
  // With pytorch_compatible, only ClassicEngine::grow checks the limit, as PyTorch does: against
  // the size of a plain segment.
  if (!deps_.options.pytorch_compatible && deps_.limit.is_exceeded_by(mapped_bytes)) {
    return limit_exceeded_error();
  }
  const BlockStore::Reservation for_rest = deps_.heap.reserve(1);
  Result<size_t> mapped = block->expandable->map(mapped_from, bytes);
  if (!mapped.ok()) return mapped.status();
  BlockHeap& heap = deps_.heap;
  FreePool& pool = *block->pool;
  pool.erase_unmapped(block);
  block->state = BlockState::kFree;
  block->segment_stack = deps_.tracer.caller_stack();
  if (*mapped < block->bytes) {
    ClassicBlock* rest = heap.create_neighbour(
        *block, {block->address + *mapped, block->bytes - *mapped}, block, block->next);
    rest->state = BlockState::kUnmapped;
    block->bytes = *mapped;
    pool.insert_unmapped(rest);
  }
  heap.merge(block, block->previous);
  heap.merge(block, block->next);
  pool.insert(block);
  deps_.stats.record_reserved(*block, *mapped);
  ClassicBlock part = *block;
  part.address = mapped_from;
  deps_.tracer.record(TraceAction::kSegmentMap, part, *mapped);
  return {};
}

Result<std::vector<ClassicBlock*>> ExpandableSegments::create_mapped(
    const AllocParams& params, const std::vector<MappedPart>& parts) {
  std::vector<ClassicBlock*> mapped;
  mapped.reserve(parts.size());
  Result<ClassicBlock*> created = create_segment(params);
  if (!created.ok()) return created.status();
  ClassicBlock* unmapped = *created;
  const DeviceAddress begin = unmapped->address;
  for (const MappedPart& part : parts) {
    const DeviceAddress at = begin + part.offset;
    if (at > unmapped->address) unmapped = split_unmapped(unmapped, at);
    if (Status done = map_front(unmapped, part.bytes); !done.ok()) return done;
    mapped.push_back(unmapped);
    unmapped = unmapped->next;
  }
  for (ClassicBlock* block : mapped) params.pool->erase(block);
  return mapped;
}

// Splits an unmapped block in two, and returns the second one.
ClassicBlock* ExpandableSegments::split_unmapped(ClassicBlock* block, DeviceAddress at) {
  const BlockStore::Reservation for_rest = deps_.heap.reserve(1);
  FreePool& pool = *block->pool;
  pool.erase_unmapped(block);
  ClassicBlock* rest =
      deps_.heap.create_neighbour(*block, {at, block->end() - at}, block, block->next);
  rest->state = BlockState::kUnmapped;
  block->bytes = at - block->address;
  pool.insert_unmapped(block);
  pool.insert_unmapped(rest);
  return rest;
}

Status ExpandableSegments::unmap(ClassicBlock* block, AddressRange granules,
                                 Status& deferred_error) {
  const BlockStore::Reservation for_ends = deps_.heap.reserve(2);
  Status unmapped = block->expandable->unmap(granules, deferred_error);
  if (!unmapped.ok()) return unmapped;
  BlockHeap& heap = deps_.heap;
  FreePool& pool = *block->pool;
  pool.erase(block);
  const DeviceAddress begin = granules.begin;
  const size_t before_bytes = begin - block->address;
  const size_t after_bytes = block->end() - granules.end();
  block->address = begin;
  block->bytes = granules.bytes;
  if (before_bytes > 0) {
    const DeviceAddress before(begin.value() - before_bytes);
    pool.insert(heap.create_neighbour(*block, {before, before_bytes}, block->previous, block));
  }
  if (after_bytes > 0) {
    pool.insert(heap.create_neighbour(*block, {granules.end(), after_bytes}, block, block->next));
  }
  block->state = BlockState::kUnmapped;
  heap.merge(block, block->previous);
  heap.merge(block, block->next);
  pool.insert_unmapped(block);
  deps_.stats.record_released(*block, granules.bytes);
  ClassicBlock part = *block;
  part.address = begin;
  deps_.tracer.record(TraceAction::kSegmentUnmap, part, granules.bytes);
  return {};
}

void ExpandableSegments::destroy_empty(FreePool& pool, Status& deferred_error) {
  for (ClassicBlock *block = pool.unmapped().first(), *next = nullptr; block != nullptr;
       block = next) {
    next = FreePool::UnmappedBlocks::next(block);
    if (block->is_split()) continue;
    ExpandableSegment* segment = block->expandable;
    if (Status freed = segment->free_addresses(); !freed.ok()) {
      if (deferred_error.ok()) deferred_error = freed;
      continue;
    }
    pool.erase_unmapped(block);
    if (PrivatePool* owner = pool.owner()) --owner->segment_count;
    deps_.heap.destroy(block);
    std::erase_if(segments_, [&](const auto& each) { return each.get() == segment; });
  }
}

Status ExpandableSegments::add_accessor(DeviceIndex accessor) {
  if (is_accessor(accessor)) return {};
  reserve_amortized(accessors_, accessors_.size() + 1);
  for (const auto& segment : segments_) {
    if (Status opened = segment->grant_access_to(accessor); !opened.ok()) return opened;
  }
  accessors_.push_back(accessor);
  return {};
}

bool ExpandableSegments::is_accessor(DeviceIndex device) const {
  return std::find(accessors_.begin(), accessors_.end(), device) != accessors_.end();
}

size_t ExpandableSegments::granule_bytes(bool is_small) const {
  return round_up(deps_.sizes.expandable_granule_bytes(is_small),
                  deps_.device.properties().granularity_bytes);
}

std::string ExpandableSegments::reserve_hint(const AllocParams& params) const {
  if (!params.expandable || params.block_bytes > deps_.limit.capacity_bytes()) return {};
  const size_t granule = granule_bytes(params.pool->is_small());
  const size_t reserve = reserve_policy_.reserve_bytes(params.request.stream, granule);
  if (params.block_bytes <= reserve) return {};
  const std::string name = reserve_policy_.stream_class(params.request.stream);
  return text(" An expandable segment of this stream", name.empty() ? "" : " of class ", name,
              " reserves no more than ", reserve,
              " B of addresses: see expandable_segments_reserve and "
              "expandable_segments_reserve_by_class.");
}

}  // namespace ashlar::classic
