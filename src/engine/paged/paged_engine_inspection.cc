// SPDX-License-Identifier: Apache-2.0
//
// Implements statistics, snapshots, sharing and observers of a paged engine.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {
namespace {

// Describes the contiguous memory from `first` up to the next detached block.
SnapshotSegment describe_segment(const PagedBlock& first, DeviceIndex device) {
  const View& view = *first.view;
  SnapshotSegment segment;
  segment.device = device;
  segment.address = first.address;
  segment.stream = first.stream;
  segment.is_large = !view.is_small;
  segment.is_expandable = !view.is_plain;
  segment.is_paused = !view.is_plain && first.arena->pool.is_paused;
  segment.stack = view.stack;
  segment.pool = first.arena->pool.id;
  for (const PagedBlock* block = &first; block != nullptr && !block->is_detached();
       block = block->next) {
    append_block(*block, segment);
  }
  return segment;
}

// The segments of one view have equal creation numbers.
void describe_segments(const View& view, DeviceIndex device, EngineSnapshot& snapshot) {
  for (const PagedBlock* block = view.first; block != nullptr; block = block->next) {
    const bool is_first = block->previous == nullptr || block->previous->is_detached();
    if (!is_first || block->is_detached()) continue;
    snapshot.segments.push_back(describe_segment(*block, device));
    snapshot.creation_numbers.emplace(block->address, view.id);
  }
}

SnapshotView describe_view(const View& view, DeviceIndex device) {
  return {.device = device,
          .address = view.reserved.begin,
          .reserved_bytes = view.reserved.bytes,
          .mapped_bytes = view.mapped_bytes,
          .is_large = !view.is_small,
          .stream = view.arena->stream,
          .pool = view.arena->pool.id};
}

// Omits slots that are unmapped because their pool is being paused or resumed.
SnapshotExtent describe_extent(const Extent& extent, DeviceIndex device) {
  SnapshotExtent described{.device = device,
                           .id = extent.id,
                           .bytes = extent.bytes,
                           .is_large = !extent.is_small,
                           .stream = extent.arena->stream,
                           .pool = extent.arena->pool.id};
  if (extent.traced.bytes != 0) described.traced_address = extent.traced.begin;
  for (const Extent::Mapping& mapping : extent.mappings) {
    const Slot& slot = mapping.view->slots[mapping.slot];
    if (!slot.is_mapped) continue;
    const DeviceAddress address = mapping.view->at(slot.offset);
    described.mappings.push_back({address, static_cast<int64_t>(slot.mapped_ticks)});
    if (extent.is_attached_to(*mapping.view, mapping.slot)) described.attached_address = address;
  }
  return described;
}

// Omits extents that have no memory because their pool is paused.
void describe_pool(PagedPool& pool, DeviceIndex device, EngineSnapshot& snapshot) {
  pool.flush();
  for (const auto& view : pool.views) {
    describe_segments(*view, device, snapshot);
    if (!view->is_plain) snapshot.views.push_back(describe_view(*view, device));
  }
  for (const auto& extent : pool.extents) {
    if (!extent->is_dropped) snapshot.extents.push_back(describe_extent(*extent, device));
  }
}

void sort_snapshot(EngineSnapshot& snapshot) {
  const auto by_address = [](const auto& a, const auto& b) { return a.address < b.address; };
  for (SnapshotExtent& each : snapshot.extents) {
    std::sort(each.mappings.begin(), each.mappings.end(), by_address);
  }
  std::sort(snapshot.segments.begin(), snapshot.segments.end(), by_address);
  std::sort(snapshot.views.begin(), snapshot.views.end(), by_address);
  std::sort(snapshot.extents.begin(), snapshot.extents.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
}

}  // namespace

AllocatorStats PagedEngine::stats() const {
  EngineLock lock(mutex_);
  InactiveSplits inactive{};
  for (const auto& [id, pool] : pools_.all()) pool->add_inactive_splits(inactive);
  return peaks_.stats(inactive);
}

uint64_t PagedEngine::visited_arena_count() const {
  EngineLock lock(mutex_);
  return peaks_.visited_arena_count() + stitcher_.visited_count();
}

void PagedEngine::reset_peak_stats() { peaks_.reset_peaks(); }

void PagedEngine::reset_total_stats() { peaks_.reset_totals(); }

// Holds all locks, to copy a consistent state.
EngineSnapshot PagedEngine::take_snapshot(std::optional<PoolId> wanted) {
  EngineSnapshot snapshot;
  {
    EngineLock lock(mutex_);
    peaks_.with_arenas_locked([&](int64_t active_bytes) ASHLAR_REQUIRES(engine_lock) {
      for (const auto& [id, pool] : pools_.all()) {
        if (!wanted || id == *wanted) describe_pool(*pool, config_.index, snapshot);
      }
      TraceEntry entry;
      entry.action = TraceAction::kSnapshot;
      entry.bytes = static_cast<size_t>(active_bytes);
      tracer_.hooks().record(entry);
      snapshot.position = history_.position();
    });
  }
  sort_snapshot(snapshot);
  notify_trackers();
  return snapshot;
}

template <typename Visit>
void PagedEngine::for_each_block(const Visit& visit) const {
  for (const auto& [id, pool] : pools_.all()) {
    ArenaLocks arenas(*pool);
    for (const auto& view : pool->views) {
      for (const PagedBlock* block = view->first; block != nullptr; block = block->next) {
        visit(*block);
      }
    }
  }
}

std::vector<StackId> PagedEngine::stacks_in_use() const {
  EngineLock lock(mutex_);
  std::vector<StackId> stacks;
  for_each_block([&](const PagedBlock& block) {
    if (block.is_active()) stacks.push_back(block.stack);
    if (block.previous == nullptr) stacks.push_back(block.view->stack);
  });
  return stacks;
}

Result<std::vector<DeviceAddress>> PagedEngine::live_in_pool(PoolId pool) const {
  EngineLock lock(mutex_);
  if (pools_.find(pool) == nullptr) return no_such_pool(pool);
  std::vector<DeviceAddress> live;
  for_each_block([&](const PagedBlock& block) {
    if (block.is_allocated() && block.arena->pool.id == pool) live.push_back(block.address);
  });
  std::sort(live.begin(), live.end());
  return live;
}

Status PagedEngine::annotate(DeviceAddress address, const std::string& annotation) {
  EngineLock lock(mutex_);
  bool is_found = false;
  for_each_block([&](const PagedBlock& block) {
    if (!block.is_allocated() || block.address != address) return;
    is_found = true;
    TraceEntry entry = make_entry(TraceAction::kAnnotate, block, block.requested_bytes);
    entry.pool = block.arena->pool.id;
    tracer_.hooks().record_annotation(entry, annotation);
  });
  return is_found ? Status() : Status::invalid_argument(text("no live block starts at ", address));
}

size_t PagedEngine::largest_cached_bytes() const {
  EngineLock lock(mutex_);
  size_t largest_bytes = 0;
  size_t run_bytes = 0;
  const View* view = nullptr;
  for_each_block([&](const PagedBlock& block) {
    if (block.arena->pool.is_paused) return;
    if (block.view != view || !block.is_free()) run_bytes = 0;
    view = block.view;
    if (block.is_free()) run_bytes += block.bytes;
    largest_bytes = std::max(largest_bytes, run_bytes);
  });
  return largest_bytes;
}

std::vector<ExpandableSegmentStats> PagedEngine::expandable_segments() const {
  EngineLock lock(mutex_);
  std::vector<ExpandableSegmentStats> uses;
  for (const auto& [id, pool] : pools_.all()) {
    ArenaLocks arenas(*pool);
    for (const auto& view : pool->views) {
      if (view->is_plain) continue;
      size_t attached_bytes = 0;
      for (const Slot& slot : view->slots) {
        const bool is_attached = slot.extent != nullptr && slot.extent->attached_view == view.get();
        if (is_attached && slot.is_mapped) attached_bytes += slot.bytes;
      }
      uses.push_back({view->arena->stream, view->is_small, view->reserved, attached_bytes});
    }
  }
  return uses;
}

void PagedEngine::pin(Block* block) {
  BiasedLock lock(static_cast<PagedBlock*>(block)->arena->lock);
  ASHLAR_CHECK(block->is_allocated() || block->pin_count > 0);
  ++block->pin_count;
}

// A pinned block that was freed is pending and has no events yet. The events are recorded now, so
// that they also cover work queued since the free.
void PagedEngine::unpin(Block* pinned) {
  auto* block = static_cast<PagedBlock*>(pinned);
  {
    EngineLock lock(mutex_);
    const FastPathUpdate update(*this);
    {
      BiasedLock arena_lock(block->arena->lock);
      ASHLAR_CHECK(block->pin_count > 0);
      --block->pin_count;
      if (block->pin_count > 0 || block->is_allocated()) return;
    }
    tracer_.set_stack({});
    if (Status freed = pending_.add(block); !freed.ok()) error_.record(std::move(freed));
    segments_.return_to_sources();
  }
  notify_trackers();
}

BlockMemory PagedEngine::block_memory(const Block* base_block) const {
  EngineLock lock(mutex_);
  const auto& block = static_cast<const PagedBlock&>(*base_block);
  const View& view = *block.view;
  BlockMemory memory;
  if (view.is_plain) {
    if (view.source != nullptr) memory.origin = BlockMemory::Origin::kSource;
    memory.range = view.reserved;
    return memory;
  }
  if (block.arena->pool.is_paused) {
    memory.origin = BlockMemory::Origin::kPaused;
    return memory;
  }
  memory.origin = BlockMemory::Origin::kExtents;
  memory.can_export_fd = config_.sizing.is_shareable();
  const size_t begin = view.offset_of(block);
  const size_t first = view.slot_at(begin);
  memory.range.begin = view.at(view.slots[first].offset);
  memory.granule_bytes = view.slots[first].bytes;
  for (size_t i = first; i < view.slots.size() && view.slots[i].offset < begin + block.bytes; ++i) {
    memory.extents.push_back(view.slots[i].extent->id);
    memory.range.bytes += view.slots[i].bytes;
  }
  return memory;
}

Status PagedEngine::add_accessor(DeviceIndex accessor) {
  EngineLock lock(mutex_);
  if (views_.is_accessor(accessor)) return {};
  for (const auto& [id, pool] : pools_.all()) {
    if (Status added = views_.grant_access_to(accessor, *pool); !added.ok()) return added;
  }
  views_.add_accessor(accessor);
  return {};
}

bool PagedEngine::is_accessor(DeviceIndex device) const {
  EngineLock lock(mutex_);
  return views_.is_accessor(device);
}

// Only stores the name: the class of a stream does not affect how much its views reserve.
void PagedEngine::set_stream_class(StreamId stream, std::string name) {
  EngineLock lock(mutex_);
  if (name.empty()) {
    stream_classes_.erase(stream);
  } else {
    stream_classes_[stream] = std::move(name);
  }
}

std::string PagedEngine::stream_class(StreamId stream) const {
  EngineLock lock(mutex_);
  const auto found = stream_classes_.find(stream);
  return found == stream_classes_.end() ? std::string() : found->second;
}

void PagedEngine::set_default_class_fraction(const std::string&, double) {}

void PagedEngine::add_tracker(TraceTracker tracker) {
  tracer_.hooks().add_tracker(std::move(tracker));
}

void PagedEngine::add_oom_observer(std::function<void(const OomNotice&)> observer) {
  tracer_.hooks().add_oom_observer(std::move(observer));
}

void PagedEngine::add_rejection_observer(std::function<void(const OomNotice&)> observer) {
  tracer_.hooks().add_rejection_observer(std::move(observer));
}

void PagedEngine::add_free_memory_callback(std::function<bool()> callback) {
  tracer_.hooks().add_free_memory_callback(std::move(callback));
}

// Omits mappings whose unmapping has already been announced: the new observer would not receive
// that announcement.
Status PagedEngine::add_remap_observer(RemapObserver observer) {
  {
    EngineLock lock(mutex_);
    std::vector<AddressRange> mapped;
    for (const auto& [id, pool] : pools_.all()) {
      for (const auto& view : pool->views) {
        for (const Slot& slot : view->slots) {
          const bool is_mapped =
              slot.extent != nullptr && slot.is_mapped && !slot.is_unmap_announced;
          if (is_mapped && !slot.extent->is_releasing) mapped.push_back(view->range_of(slot));
        }
      }
    }
    views_.observers().add(std::move(observer), mapped);
  }
  views_.observers().notify();
  return {};
}

}  // namespace ashlar::paged
