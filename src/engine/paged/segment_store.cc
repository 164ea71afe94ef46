// SPDX-License-Identifier: Apache-2.0
//
// Obtains and releases plain segments.
#include "engine/paged/segment_store.h"

#include <memory>
#include <utility>

#include "base/host_memory.h"
#include "device/relaxed_capture.h"

namespace ashlar::paged {

// Allocates all other host memory before it obtains the segment.
Result<Block*> SegmentStore::allocate(SlowPathRequest& request, size_t segment_bytes) {
  PagedPool& pool = *request.pool;
  Arena& arena = *request.arena;
  const BlockReservation blocks(arena);
  {
    BiasedLock lock(arena.lock);
    arena.reserve_ranges(request.is_small, segment_bytes);
  }
  std::unique_ptr<View> prepared = pool.prepare_view();
  ScopeGuard discard([&] { pool.discard_view(std::move(prepared)); });
  const Result<DeviceAddress> address = obtain(request, segment_bytes);
  tracer_.set_stack(request.request.stack);
  if (!address.ok()) return address.status();
  discard.dismiss();

  View& view = pool.add_view(std::move(prepared));
  view.reserved = {*address, segment_bytes};
  view.mapped_bytes = segment_bytes;
  view.arena = &arena;
  view.is_small = request.is_small;
  view.is_plain = true;
  view.source = pool.options.source;
  view.stack = request.request.stack;
  extents_.add_segment(view);
  BiasedLock lock(arena.lock);
  tracer_.trace_memory(TraceAction::kSegmentAlloc, arena, view.reserved);
  PagedBlock* block = arena.insert_block(view, view.reserved, nullptr);
  const bool is_split = segment_bytes > request.block_bytes && !pool.options.no_split;
  if (is_split) arena.add_free(arena.split(block, request.block_bytes));
  Arena::mark_allocated(arena.sub_arena(block->is_small), block, request.request.bytes,
                        request.request.stack);
  tracer_.trace_alloc(*block);
  return block;
}

// Releases the engine's lock during the call: an allocation of the device may take a long time, and
// a SegmentSource is user code.
Result<DeviceAddress> SegmentStore::obtain(const SlowPathRequest& request, size_t bytes) {
  extents_.begin_growth(bytes);
  const ScopeGuard end([&]() ASHLAR_REQUIRES(engine_lock) { extents_.end_growth(bytes); });
  const std::shared_ptr<SegmentSource> source = request.pool->options.source;
  const StreamId stream = request.request.stream;
  EngineUnlock unlocked(mutex_);
  const RelaxedCapture relaxed(config_.device);
  if (!relaxed.status().ok()) return relaxed.status();
  return source ? source->allocate(bytes, stream) : config_.device.allocate(bytes);
}

bool SegmentStore::release(View& view, TrimWait wait) noexcept {
  Arena& arena = *view.arena;
  {
    BiasedLock lock(arena.lock);
    if (view.first != view.last || !view.first->is_in_ranges()) return false;
    arena.erase_free(view.first);
    view.first->state = BlockState::kPending;
  }
  const bool is_freed =
      catch_bad_alloc([&]() ASHLAR_REQUIRES(engine_lock) { return try_free(view, wait); });
  if (!is_freed) {
    BiasedLock lock(arena.lock);
    arena.add_free(view.first);
    return false;
  }
  tracer_.trace_memory(TraceAction::kSegmentFree, arena, view.reserved);
  extents_.remove_segment(view);
  {
    BiasedLock lock(arena.lock);
    arena.remove_block(view.first);
  }
  arena.pool.erase_view(view);
  return true;
}

bool SegmentStore::try_free(const View& view, TrimWait wait) {
  const StreamId stream = view.arena->stream;
  if (!streams_.is_waitable(stream)) return false;
  const RelaxedCapture relaxed(config_.device, streams_.capture_count());
  Status freed = relaxed.status();
  const bool may_wait = wait == TrimWait::kForWork;
  if (freed.ok() && may_wait) freed = streams_.wait_for(stream);
  if (freed.ok() && !may_wait && !streams_.is_idle(stream)) return false;
  if (freed.ok() && view.source == nullptr) freed = config_.device.free(view.reserved.begin);
  if (!freed.ok()) {
    error_.record(std::move(freed));
    return false;
  }
  if (view.source != nullptr) return_queue_.add(view.source, view.reserved);
  return true;
}

void SegmentStore::return_to_sources() {
  bool is_flushed = true;
  while (is_flushed && !return_queue_.empty()) {
    EngineUnlock unlocked(mutex_);
    is_flushed = catch_bad_alloc([this] {
      return_queue_.flush(config_.device);
      return true;
    });
  }
}

void SegmentStore::wait_for_sources() {
  if (!return_queue_.is_flushed_by_another_thread()) return;
  EngineUnlock unlocked(mutex_);
  return_queue_.wait_for_other_threads();
}

void SegmentStore::destroy(const View& view) noexcept {
  if (view.source == nullptr) {
    catch_bad_alloc([&] { return config_.device.free(view.reserved.begin).ok(); });
    return;
  }
  const bool is_queued = catch_bad_alloc([&] {
    return_queue_.add(view.source, view.reserved);
    return true;
  });
  // No other thread uses the engine, so the source may be called under its lock.
  if (!is_queued) view.source->free(view.reserved.begin, view.reserved.bytes);
}

void SegmentStore::destroy_returned() noexcept {
  catch_bad_alloc([this] { return_queue_.flush(config_.device); });
}

}  // namespace ashlar::paged
