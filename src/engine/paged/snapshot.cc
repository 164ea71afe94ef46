// SPDX-License-Identifier: Apache-2.0
//
// What the engine holds, in the words of a snapshot: blocks in segments, as PyTorch's tools want
// them, and the views and extents that these are made of.
#include <algorithm>

#include "engine/paged/all_arenas.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {
namespace {

// From a block on, as far as memory is there.
SnapshotSegment shown_from(const PagedBlock& first, DeviceIndex device) {
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
  for (const PagedBlock* block = &first; block != nullptr && !block->is_away();
       block = block->next) {
    append_block(*block, segment);
  }
  return segment;
}

void show_segments(const View& view, DeviceIndex device, std::vector<SnapshotSegment>& segments) {
  for (const PagedBlock* block = view.first; block != nullptr; block = block->next) {
    const bool is_first = block->previous == nullptr || block->previous->is_away();
    if (is_first && !block->is_away()) segments.push_back(shown_from(*block, device));
  }
}

SnapshotView shown(const View& view, DeviceIndex device) {
  return {.device = device,
          .address = view.reserved.begin,
          .reserved_bytes = view.reserved.bytes,
          .mapped_bytes = view.mapped_bytes,
          .is_large = !view.is_small,
          .stream = view.arena->stream,
          .pool = view.arena->pool.id};
}

// What is unmapped for the moment, since its pool is being paused or resumed, is not mapped.
SnapshotExtent shown(const Extent& extent, DeviceIndex device) {
  SnapshotExtent shown{.device = device,
                       .id = extent.id,
                       .bytes = extent.bytes,
                       .is_large = !extent.is_small,
                       .stream = extent.arena->stream,
                       .pool = extent.arena->pool.id};
  if (extent.shown.bytes != 0) shown.traced = extent.shown.begin;
  for (const Extent::Mapping& mapping : extent.mappings) {
    const Slot& slot = mapping.view->slots[mapping.slot];
    if (!slot.is_mapped) continue;
    const DeviceAddress address = mapping.view->at(slot.offset);
    shown.mappings.push_back({address, static_cast<int64_t>(slot.mapped_ticks)});
    if (extent.is_at_home_in(*mapping.view, mapping.slot)) shown.home = address;
  }
  return shown;
}

}  // namespace

// At one moment, and so under all locks; no hit comes between. Extents of a paused pool have no
// memory, and are none.
EngineSnapshot PagedEngine::take_snapshot(std::optional<PoolId> wanted) {
  EngineSnapshot held;
  const DeviceIndex device = index_;
  {
    MutexLock lock(mutex_);
    MutexLock counting(counting_mutex_);
    AllArenas all(arenas_);
    for (const auto& [id, pool] : pools_) {
      if (wanted && id != *wanted) continue;
      for (const auto& [stream, arena] : pool->arenas) arena->flush();
      for (const auto& view : pool->views) {
        show_segments(*view, device, held.segments);
        if (!view->is_plain) held.views.push_back(shown(*view, device));
      }
      for (const auto& extent : pool->extents) {
        if (!extent->is_dropped) held.extents.push_back(shown(*extent, device));
      }
    }
    int64_t active_bytes = 0;
    for (const Arena* arena : arenas_) {
      for (const Heap& heap : arena->heaps) active_bytes += heap.counters.active().bytes;
    }
    TraceEntry entry;
    entry.action = TraceAction::kSnapshot;
    entry.bytes = static_cast<size_t>(active_bytes);
    hooks_.record(entry);
    held.position = history_.position();
  }
  const auto by_address = [](const auto& a, const auto& b) { return a.address < b.address; };
  for (SnapshotExtent& each : held.extents) {
    std::sort(each.mappings.begin(), each.mappings.end(), by_address);
  }
  std::sort(held.segments.begin(), held.segments.end(), by_address);
  std::sort(held.views.begin(), held.views.end(), by_address);
  std::sort(held.extents.begin(), held.extents.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  hooks_.notify();
  return held;
}

}  // namespace ashlar::paged
