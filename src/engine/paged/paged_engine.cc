// SPDX-License-Identifier: Apache-2.0
//
// Allocate, free, record_stream. The fast way is at the top; `find_or_grow` is the table of
// contents for the rest.
#include "engine/paged/paged_engine.h"

#include <algorithm>

#include "base/align.h"
#include "base/text.h"
#include "engine/paged/all_arenas.h"

namespace ashlar::paged {
namespace {

// What a view needs of a device. 0: it does not have that.
size_t usable_granule_bytes(const DeviceProperties& properties) {
  return properties.has_virtual_memory && properties.can_alias ? properties.granularity_bytes : 0;
}

// How much of a request may become useless beside it before other places are looked at.
double tolerance_of(PagedPolicy policy) {
  switch (policy) {
    case PagedPolicy::kFast: return 0.5;
    case PagedPolicy::kBalanced: return 0.1;
    case PagedPolicy::kLean: return 0.02;
  }
  return 0;
}

// From the third look in vain at what other streams use on, the next one comes after twice as many
// requests; after 32 at most. A mixture of experts then needs a quarter of the looks.
constexpr int kMostVainLooks = 8;

Clock& host_clock() {
  static SteadyClock clock;
  return clock;
}

}  // namespace

PagedEngine::PagedEngine(Device& device, const AllocatorOptions& options, Clock* clock)
    : device_(device),
      clock_(clock != nullptr ? *clock : host_clock()),
      options_(options),
      sizes_(AllocatorOptions{}),
      index_(device.properties().index),
      capacity_bytes_(device.properties().capacity_bytes),
      granule_bytes_(usable_granule_bytes(device.properties())),
      tolerance_(tolerance_of(options.policy)),
      waiting_(device, options.capture_stream_reuse),
      accessors_{device.properties().index},
      memory_fraction_(options.memory_fraction),
      caching_(options.caching),
      hooks_(history_, device.properties().index) {
  MutexLock lock(mutex_);
  default_pool_ = &add_pool({}, {});
  refresh();
}

// Nothing is told, and nothing that fails changes what is left to do.
PagedEngine::~PagedEngine() {
  {
    MutexLock lock(mutex_);
    (void)device_.synchronize_device().ok();
    if (handover_) (void)device_.destroy_event(*handover_).ok();
    for (const auto& [id, pool] : pools_) keep_events_of(*pool);
    for (const EventId event : spare_events_) (void)device_.destroy_event(event).ok();
    if (copier_) (void)device_.destroy_stream(*copier_).ok();
    for (void* memory : stale_backups_) (void)device_.free_host(memory).ok();
    for (const auto& [id, pool] : pools_) {
      for (const auto& extent : pool->extents) {
        for (const Extent::Mapping& mapping : extent->mappings) {
          const Slot& slot = mapping.view->slots[mapping.slot];
          if (!slot.is_mapped) continue;
          (void)device_.unmap({mapping.view->at(slot.offset), slot.bytes}).ok();
        }
        if (!extent->is_dropped) (void)device_.release(extent->id).ok();
        if (void* kept = extent->backup.memory) (void)device_.free_host(kept).ok();
      }
      for (const auto& view : pool->views) {
        if (view->source != nullptr) {
          return_queue_.add(view->source, view->reserved);
        } else if (view->is_plain) {
          (void)device_.free(view->reserved.begin).ok();
        } else {
          (void)device_.free_addresses(view->reserved).ok();
        }
      }
    }
  }
  return_queue_.flush(device_);
}

// --- allocate -----------------------------------------------------------------------------------

// What nearly every request is: on a stream that this thread alone works on, of a size that was
// freed a moment ago, seen by nobody but the history. No calls from here unless that is on, or what
// small and large blocks may do unseen is divided anew, which is half of why it is fast. Null:
// there is more to it.
[[gnu::always_inline]] inline PagedBlock* PagedEngine::take_at_once(
    const AllocationRequest& request) {
  Arena* arena = default_arenas_.find(request.stream);
  const bool is_simple =
      arena != nullptr && !needs_care_.load(std::memory_order_relaxed) && !hooks_.has_trackers();
  if (!is_simple) return nullptr;
  const OwnedLock lock(arena->lock);
  if (!lock.is_held()) return nullptr;
  Heap& heap = arena->heap(SizePolicy::is_small(request.bytes));
  PagedBlock*& head = heap.quick.head_for(request.bytes);
  PagedBlock* block = head;
  if (block == nullptr) return nullptr;
  const Amount more{1, static_cast<int64_t>(block->bytes), static_cast<int64_t>(request.bytes)};
  if (!arena->may_rise(heap, more)) return nullptr;
  head = block->list_next;
  count_out(heap, block, request);
  if (history_.is_on()) [[unlikely]]
    record_taken(*block);
  return block;
}

// False: there is more to it.
[[gnu::always_inline]] inline bool PagedEngine::put_at_once(PagedBlock* block, StackId stack) {
  if (hooks_.has_trackers()) return false;
  const OwnedLock lock(block->arena->lock);
  if (!lock.is_held() || !is_simple(*block)) return false;
  Heap& heap = block->arena->heap(block->is_small);
  if (!heap.quick.put(block)) return false;
  heap.counters.fallen.add(amount_of(*block));
  if (history_.is_on()) [[unlikely]]
    record_put(*block, stack);
  return true;
}

Block* PagedEngine::allocate_fast(size_t bytes, StreamId stream) noexcept {
  return take_at_once({bytes, stream, {}});
}

Result<Block*> PagedEngine::allocate(const AllocationRequest& request) {
  PagedBlock* block = take_at_once(request);
  if (block != nullptr) [[likely]]
    return block;
  return allocate_from_arena(request);
}

// Functions of their own, and hot: in place, what is unlikely is made small instead of fast, and
// a copy of an act by one instruction took as long as all the rest.
void PagedEngine::record_taken(const PagedBlock& block) {
  history_.record_fast(
      [&] { return act_on(TraceAction::kAlloc, block, block.requested_bytes, block.stack); });
}

void PagedEngine::record_put(const PagedBlock& block, StackId stack) {
  history_.record_fast([&] { return act_of_free(block, stack); });
}

// A hit that needs more than that.
Result<Block*> PagedEngine::allocate_from_arena(const AllocationRequest& request) {
  if (request.bytes == 0) return Status::invalid_argument("cannot allocate 0 B");
  if (request.bytes >= kUnreasonableBytes) {
    return Status::out_of_memory(
        text("tried to allocate ", request.bytes, " B: no device has an exabyte"));
  }
  const bool is_look_due = has_waiting_.load(std::memory_order_relaxed) &&
                           hits_before_look_.fetch_sub(1, std::memory_order_relaxed) <= 0;
  if (is_look_due || needs_care_.load(std::memory_order_relaxed)) return allocate_slowly(request);
  Arena& arena = default_arena(request.stream);
  PagedBlock* block = nullptr;
  bool is_peak = false;
  {
    BiasedLock lock(arena.lock);
    block = arena.take(SizeClasses::block_bytes(request.bytes), tolerance_);
    if (block != nullptr) is_peak = hand_out(arena, block, request);
  }
  if (block == nullptr) return allocate_slowly(request);
  if (is_peak) settle(&arena);
  hooks_.notify();
  remaps_.notify();  // another thread may have mapped this memory, and not told yet
  return block;
}

Result<Block*> PagedEngine::allocate_slowly(const AllocationRequest& request) {
  Result<Block*> block = [&] {
    MutexLock lock(mutex_);
    caller_stack_ = request.stack;
    Search search;
    search.request = request;
    Result<Block*> allocated = allocate_locked(search);
    if (std::exchange(has_mapped_, false)) retire_mappings();
    give_back_to_sources();
    refresh();
    return allocated;
  }();
  if (block.ok() && is_above_levels(**block)) settle(static_cast<PagedBlock*>(*block)->arena);
  hooks_.notify();
  remaps_.notify();
  return block;
}

// The block is its caller's already, and keeps its arena.
bool PagedEngine::is_above_levels(const Block& handed_out) {
  const auto& block = static_cast<const PagedBlock&>(handed_out);
  Arena& arena = *block.arena;
  BiasedLock lock(arena.lock);
  return !arena.may_rise(arena.heap(block.is_small), {});
}

Result<Block*> PagedEngine::allocate_locked(Search& search) {
  if (!deferred_error_.ok()) return std::exchange(deferred_error_, {});
  const StreamId stream = search.request.stream;
  if (Status collected = collect_waiting(stream); !collected.ok()) return collected;
  search.bytes = SizeClasses::block_bytes(search.request.bytes);
  search.is_small = SizePolicy::is_small(search.bytes);
  search.pool = pools_.at(routes_.pool_for(stream)).get();
  if (search.pool->is_paused) return paused(*search.pool);
  search.arena = &arena_of(*search.pool, stream);
  if (waiting_.is_capturing({&device_, stream})) search.pool->is_baked = true;

  // What a graph has in it must be there when it is launched, freed or not.
  const bool is_cached = caching_ || waiting_.is_capturing({&device_, stream});

  // Whoever lets go of the pool while we are unlocked must not take it away.
  ++search.pool->search_count;
  Result<Block*> found = is_cached ? find_or_grow(search) : allocate_uncached(search);
  --search.pool->search_count;
  if (!found.ok() && found.status().is_out_of_memory()) return report_oom(search);
  return found;
}

Result<Block*> PagedEngine::find_or_grow(Search& search) {
  Block* block = take_cached(search, tolerance_);
  if (block == nullptr && ask_callbacks() && !search.pool->is_paused) {
    block = take_cached(search, tolerance_);
  }
  if (block != nullptr) return block;
  if (!search.is_small) search.pool->usual_size.add(search.bytes);
  Result<Block*> grown = grow(search);
  if (grown.ok() || !grown.status().is_out_of_memory()) return grown;
  return reclaim_and_retry(search, grown.status());
}

// A segment for this block alone, taken and given back with it.
Result<Block*> PagedEngine::allocate_uncached(Search& search) {
  Result<Block*> grown = grow_plain(search, search.bytes);
  const bool is_full = !grown.ok() && grown.status().is_out_of_memory() && !search.rejected;
  if (is_full) {
    if (Status released = release_cached({}); !released.ok()) return released;
    {
      MutexLock lock(counting_mutex_);
      ++stats_.alloc_retries;
    }
    grown = grow_plain(search, search.bytes);
  }
  if (grown.ok()) (*grown)->is_uncached = true;
  return grown;
}

Block* PagedEngine::take_cached(Search& search, double tolerance) {
  Arena& arena = *search.arena;
  BiasedLock lock(arena.lock);
  PagedBlock* block = arena.take(search.bytes, tolerance);
  if (block == nullptr && !arena.hosts.empty()) {
    bring_back(arena);
    block = arena.take(search.bytes, tolerance);
  }
  if (block != nullptr) hand_out(arena, block, search.request);
  return block;
}

// --- free ---------------------------------------------------------------------------------------

Status PagedEngine::free(Block* freed, StackId stack) {
  auto* block = static_cast<PagedBlock*>(freed);
  if (put_at_once(block, stack)) [[likely]]
    return {};
  return free_to_arena(block, stack);
}

void PagedEngine::free_quietly(Block* freed, StackId stack) {
  auto* block = static_cast<PagedBlock*>(freed);
  if (!put_at_once(block, stack)) [[unlikely]]
    free_to_arena_quietly(block, stack);
}

void PagedEngine::free_to_arena_quietly(PagedBlock* block, StackId stack) {
  Status status = free_to_arena(block, stack);
  if (status.ok()) return;
  MutexLock lock(mutex_);
  defer_error(std::move(status));
  refresh();
}

Status PagedEngine::free_to_arena(PagedBlock* block, StackId stack) {
  bool is_done = false;
  {
    BiasedLock lock(block->arena->lock);
    is_done = is_simple(*block);
    if (is_done) take_back(block, stack);
  }
  if (!is_done) return free_slowly(block, stack);
  hooks_.notify();
  return {};
}

Status PagedEngine::free_slowly(PagedBlock* block, StackId stack) {
  const Status freed = [&]() -> Status {
    MutexLock lock(mutex_);
    caller_stack_ = stack;
    bool is_held = false;
    {
      BiasedLock arena_lock(block->arena->lock);
      if (!block->is_allocated()) return double_free_error(*block);
      Heap& heap = block->arena->heap(block->is_small);
      block->state = BlockState::kPending;
      const Amount amount = amount_of(*block);
      heap.counters.fallen.add(amount);
      heap.counters.pending.add(amount);
      block->arena->lower_levels(heap, amount);
      note(TraceAction::kFreeRequested, *block, block->requested_bytes, stack);
      is_held = block->pin_count > 0;
    }
    Status status = is_held ? Status() : finish_free(block);
    give_back_to_sources();
    refresh();
    return status;
  }();
  hooks_.notify();
  return freed;
}

Status PagedEngine::finish_free(PagedBlock* block) {
  if (!block->uses.empty()) return waiting_.add(block);
  make_free(block);
  return {};
}

void PagedEngine::make_all_free(const std::vector<Block*>& finished) {
  for (Block* block : finished) make_free(static_cast<PagedBlock*>(block));
}

// REQUIRES: pending.
void PagedEngine::make_free(PagedBlock* block) {
  View& view = *block->view;
  {
    BiasedLock lock(block->arena->lock);
    Heap& heap = block->arena->heap(view.is_small);
    note(TraceAction::kFreeCompleted, *block, block->requested_bytes, caller_stack_);
    heap.counters.pending.subtract(amount_of(*block));
    if (!block->is_uncached) {
      block->arena->put(block);
      return;
    }
    block->arena->add_free(block);
  }
  release_plain(view);
}

Status PagedEngine::record_stream(Block* block, const StreamUse& use) {
  MutexLock lock(mutex_);
  waiting_.record_use(block, use);
  return {};
}

// What other streams were using, as far as they have passed. Each look asks the device about every
// such stream, and while the host is far ahead of it finds nothing: then the next one comes later.
Status PagedEngine::collect_waiting(StreamId stream) {
  if (waiting_.empty()) return {};
  std::vector<Block*> finished;
  Status collected = waiting_.collect_for_stream(stream, finished);
  vain_looks_ = finished.empty() ? std::min(vain_looks_ + 1, kMostVainLooks) : 0;
  hits_before_look_.store((1 << vain_looks_) / 8, std::memory_order_relaxed);
  make_all_free(finished);
  return collected;
}

bool PagedEngine::ask_callbacks() {
  if (!hooks_.has_callbacks()) return false;
  MutexUnlock unlocked(mutex_);
  return hooks_.run_free_memory_callbacks();
}

void PagedEngine::refresh() {
  const bool is_simple = route_count_ == 0 && !waiting_.has_deferred() &&
                         waiting_.capture_count() == 0 && deferred_error_.ok() && caching_;
  has_waiting_.store(!waiting_.empty(), std::memory_order_relaxed);
  needs_care_.store(!is_simple, std::memory_order_relaxed);
}

// The first one is the one that explains the others.
void PagedEngine::defer_error(Status error) {
  if (deferred_error_.ok()) deferred_error_ = std::move(error);
}

}  // namespace ashlar::paged
