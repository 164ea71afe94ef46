// SPDX-License-Identifier: Apache-2.0
//
// Obtains and releases plain segments.
#include "engine/paged/segment_store.h"

#include <utility>

#include "device/relaxed_capture.h"

namespace ashlar::paged {

// Releases the lock for the device, whose allocation may take a long time, and for sources, which
// are user code.
Result<Block*> SegmentStore::allocate(SlowRequest& request, size_t segment_bytes) {
  const std::shared_ptr<SegmentSource> source = request.pool->options.source;
  Result<DeviceAddress> address = Status::out_of_memory("not requested yet");
  extents_.begin_growth(segment_bytes);
  {
    EngineUnlock unlocked(mutex_);
    const RelaxedCapture relaxed(config_.device);
    if (!relaxed.status().ok()) {
      address = relaxed.status();
    } else {
      address = source ? source->allocate(segment_bytes, request.request.stream)
                       : config_.device.allocate(segment_bytes);
    }
  }
  extents_.end_growth(segment_bytes);
  tracer_.set_stack(request.request.stack);
  if (!address.ok()) return address.status();

  Arena& arena = *request.arena;
  View& view = request.pool->add_view();
  view.reserved = {*address, segment_bytes};
  view.mapped_bytes = segment_bytes;
  view.arena = &arena;
  view.is_small = request.is_small;
  view.is_plain = true;
  view.source = source;
  view.stack = request.request.stack;
  extents_.add_segment(view);
  BiasedLock lock(arena.lock);
  tracer_.trace_memory(TraceAction::kSegmentAlloc, arena, view.reserved);
  PagedBlock* block = arena.insert_block(view, view.reserved, nullptr);
  const bool is_split = segment_bytes > request.bytes && !request.pool->options.no_split;
  if (is_split) arena.add_free(arena.split(block, request.bytes));
  Arena::mark_allocated(arena.sub_arena(block->is_small), block, request.request.bytes,
                        request.request.stack);
  tracer_.trace_alloc(*block);
  return block;
}

bool SegmentStore::release(View& view, TrimWait wait) {
  Arena& arena = *view.arena;
  if (!streams_.is_waitable(arena.stream)) return false;
  {
    BiasedLock lock(arena.lock);
    if (view.first != view.last || !view.first->is_in_ranges()) return false;
    arena.erase_free(view.first);
    view.first->state = BlockState::kPending;
  }
  const RelaxedCapture relaxed(config_.device, streams_.capture_count());
  Status freed = relaxed.status();
  const bool may_wait = wait == TrimWait::kForWork;
  if (freed.ok() && may_wait) freed = streams_.wait_for(arena.stream);
  if (freed.ok() && !may_wait && !streams_.is_idle(arena.stream)) {
    make_free_again(view);
    return false;
  }
  if (freed.ok() && view.source == nullptr) freed = config_.device.free(view.reserved.begin);
  if (!freed.ok()) {
    error_.record(std::move(freed));
    make_free_again(view);
    return false;
  }
  if (view.source != nullptr) return_queue_.add(view.source, view.reserved);
  tracer_.trace_memory(TraceAction::kSegmentFree, arena, view.reserved);
  extents_.remove_segment(view);
  {
    BiasedLock lock(arena.lock);
    arena.remove_block(view.first);
  }
  arena.pool.erase_view(view);
  return true;
}

void SegmentStore::make_free_again(View& view) {
  BiasedLock lock(view.arena->lock);
  view.arena->add_free(view.first);
}

void SegmentStore::return_to_sources() {
  while (!return_queue_.empty()) {
    EngineUnlock unlocked(mutex_);
    return_queue_.flush(config_.device);
  }
}

void SegmentStore::wait_for_sources() {
  if (!return_queue_.is_flushed_by_another_thread()) return;
  EngineUnlock unlocked(mutex_);
  return_queue_.wait_for_other_threads();
}

void SegmentStore::destroy(const View& view) {
  if (view.source != nullptr) {
    return_queue_.add(view.source, view.reserved);
  } else {
    (void)config_.device.free(view.reserved.begin).ok();
  }
}

}  // namespace ashlar::paged
