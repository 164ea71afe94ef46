// SPDX-License-Identifier: Apache-2.0
//
// Implements allocate and free, from the fast path to the slow paths; then trimming, pausing, pools
// and settings. The file is long because the engine has many operations, each of which is short.
#include "engine/paged/paged_engine.h"

#include <utility>

#include "base/host_memory.h"
#include "base/text.h"
#include "engine/paged/pool_checkpointer.h"

namespace ashlar::paged {
namespace {

Status whole_segments_error(const std::string& tag, std::string_view option) {
  return Status::invalid_argument(text("a pool with ", option, " cannot have the tag \"", tag,
                                       "\": its memory is whole segments, which cannot be paused"));
}

// Refuses options with which `pause` could not pause the pool.
Status check_tag(const PoolOptions& options) {
  if (options.tag.empty()) return {};
  if (options.source != nullptr) return whole_segments_error(options.tag, "a source");
  if (options.no_split) return whole_segments_error(options.tag, "no_split");
  if (!options.never_remap) return {};
  return Status::invalid_argument(text("a pool with never_remap cannot have the tag \"",
                                       options.tag, "\": pausing remaps its memory"));
}

}  // namespace

PagedEngine::PagedEngine(Device& device, const AllocatorOptions& options, Clock* clock)
    : config_(device, options, clock),
      tracer_(history_, config_.index),
      streams_(device, options.capture_stream_reuse, error_),
      pools_(config_.granule_bytes == 0, peaks_, streams_, addresses_),
      backups_(device, mutex_, error_),
      extents_(config_, peaks_, tracer_, backups_, error_),
      mover_(options.policy, tracer_),
      views_(config_, mutex_, mover_, tracer_, error_),
      segments_(config_, mutex_, extents_, streams_, tracer_, error_),
      pending_(streams_, segments_, peaks_, tracer_),
      stitcher_(config_, extents_, views_, mover_, streams_, peaks_, tracer_),
      retirer_(config_, mutex_, pools_, extents_, views_, mover_, streams_),
      trimmer_(config_, pools_, extents_, views_, mover_, segments_, pending_, streams_, error_),
      pauser_(config_, mutex_, pools_, extents_, views_, backups_, trimmer_, pending_, streams_,
              tracer_),
      misses_(config_, {mutex_, pools_, extents_, views_, mover_, segments_, pending_, streams_,
                        stitcher_, retirer_, trimmer_, peaks_, tracer_}) {
  EngineLock lock(mutex_);
  pools_.add_default_pool();
  update_fast_path();
}

PagedEngine::~PagedEngine() {
  {
    EngineLock lock(mutex_);
    release_all();
  }
  segments_.destroy_returned();
}

// Best effort: notifies no observers and ignores errors.
void PagedEngine::release_all() noexcept {
  Device& device = config_.device;
  const auto try_call = [](const auto& call) { catch_bad_alloc([&] { return call().ok(); }); };
  try_call([&] { return device.synchronize_device(); });
  for (const auto& [id, pool] : pools_.all()) streams_.recycle_events_of(*pool);
  streams_.destroy_events();
  backups_.destroy();
  for (const auto& [id, pool] : pools_.all()) {
    for (const auto& extent : pool->extents) {
      for (const Extent::Mapping& mapping : extent->mappings) {
        const Slot& slot = mapping.view->slots[mapping.slot];
        if (slot.is_mapped) try_call([&] { return device.unmap(mapping.view->range_of(slot)); });
      }
      if (!extent->is_dropped) try_call([&] { return device.release(extent->id); });
      if (void* backup = extent->backup.memory) try_call([&] { return device.free_host(backup); });
    }
    for (const auto& view : pool->views) {
      if (view->is_plain) {
        segments_.destroy(*view);
      } else {
        try_call([&] { return device.free_addresses(view->reserved); });
      }
    }
  }
}

Block* PagedEngine::allocate_fast(size_t bytes, StreamId stream) noexcept {
  return fast_path_.allocate({bytes, stream, {}}, tracer_, history_);
}

Result<Block*> PagedEngine::allocate(const AllocationRequest& request) {
  PagedBlock* block = fast_path_.allocate(request, tracer_, history_);
  if (block != nullptr) [[likely]]
    return block;
  return allocate_from_arena(request);
}

// Serves hits that need the arena's lock, a free range, an update of the peaks, or trackers.
Result<Block*> PagedEngine::allocate_from_arena(const AllocationRequest& request) {
  if (request.bytes == 0) return Status::invalid_argument("cannot allocate 0 B");
  if (request.bytes >= kRequestLimitBytes) {
    return Status::out_of_memory(
        text("tried to allocate ", request.bytes, " B: no device has an exabyte"));
  }
  if (pending_.count_hit_and_check_poll() || fast_path_.is_disabled())
    return allocate_slow(request);
  Arena& arena = default_arena(request.stream);
  PagedBlock* block = nullptr;
  bool is_peak = false;
  {
    BiasedLock lock(arena.lock);
    block = arena.take(SizeClasses::block_bytes(request.bytes), config_.max_waste);
    if (block != nullptr) {
      SubArena& sub = arena.sub_arena(block->is_small);
      Arena::mark_allocated(sub, block, request.bytes, request.stack);
      tracer_.trace_alloc(*block);
      is_peak = !arena.may_rise(sub, {});
    }
  }
  if (block == nullptr) return allocate_slow(request);
  if (is_peak) peaks_.update_peaks(&arena);
  notify_observers();  // another thread may have mapped this memory and not announced it yet
  return block;
}

Result<Block*> PagedEngine::allocate_slow(const AllocationRequest& request) {
  Result<Block*> allocated = [&]() -> Result<Block*> {
    EngineLock lock(mutex_);
    const FastPathUpdate update(*this);
    tracer_.set_stack(request.stack);
    Result<Block*> result = error_.ok() ? misses_.allocate(request) : error_.take();
    // This step is optional: the result must not be lost if host memory is exhausted.
    catch_bad_alloc([this]() ASHLAR_REQUIRES(engine_lock) {
      if (views_.take_has_mapped()) retirer_.enforce_bounds();
    });
    segments_.return_to_sources();
    return result;
  }();
  if (allocated.ok()) {
    const auto* block = static_cast<const PagedBlock*>(*allocated);
    Arena& arena = *block->arena;
    bool is_peak = false;
    {
      BiasedLock lock(arena.lock);
      is_peak = !arena.may_rise(arena.sub_arena(block->is_small), {});
    }
    if (is_peak) peaks_.update_peaks(&arena);
  }
  notify_observers();
  return allocated;
}

Status PagedEngine::free(Block* freed, StackId stack) {
  auto* block = static_cast<PagedBlock*>(freed);
  if (FastPath::free(block, stack, tracer_, history_)) [[likely]]
    return {};
  return free_to_arena(block, stack);
}

bool PagedEngine::owns(const Block* block) const {
  return block->type == BlockType::kPaged &&
         static_cast<const PagedBlock*>(block)->arena->belongs_to(addresses_);
}

Status PagedEngine::free_if_owned(Block* block, StackId stack) {
  if (!owns(block)) [[unlikely]]
    return foreign_block_error(*block);
  return free(block, stack);
}

void PagedEngine::free_quietly(Block* freed, StackId stack) {
  auto* block = static_cast<PagedBlock*>(freed);
  if (!FastPath::free(block, stack, tracer_, history_)) [[unlikely]]
    free_to_arena_quietly(block, stack);
}

void PagedEngine::free_to_arena_quietly(PagedBlock* block, StackId stack) {
  catch_bad_alloc([&] {  // host memory may run out while an error is described
    Status status = free_to_arena(block, stack);
    if (status.ok()) return;
    EngineLock lock(mutex_);
    error_.record(std::move(status));
    update_fast_path();
  });
}

Status PagedEngine::free_to_arena(PagedBlock* block, StackId stack) {
  bool is_freed = false;
  {
    BiasedLock lock(block->arena->lock);
    is_freed = can_free_immediately(*block);
    if (is_freed) {
      tracer_.trace_free(*block, stack);
      block->arena->free(block);
    }
  }
  if (!is_freed) return free_slow(block, stack);
  notify_trackers();
  return {};
}

// Frees a block that other streams use, that is pinned, or that is not cached.
Status PagedEngine::free_slow(PagedBlock* block, StackId stack) {
  Status freed = [&]() -> Status {
    EngineLock lock(mutex_);
    const FastPathUpdate update(*this);
    tracer_.set_stack(stack);
    bool is_pinned = false;
    {
      BiasedLock arena_lock(block->arena->lock);
      if (!block->is_allocated()) return double_free_error(*block);
      SubArena& sub = block->arena->sub_arena(block->is_small);
      block->state = BlockState::kPending;
      const Amount amount = amount_of(*block);
      sub.counters.total_freed.add(amount);
      sub.counters.pending.add(amount);
      block->arena->lower_levels(sub, amount);
      tracer_.trace_free_requested(*block, stack);
      is_pinned = block->pin_count > 0;
    }
    Status status = is_pinned ? Status() : pending_.add(block);
    segments_.return_to_sources();
    return status;
  }();
  notify_trackers();
  return freed;
}

Status PagedEngine::record_stream(Block* block, const DeviceStream& use) {
  EngineLock lock(mutex_);
  streams_.frees().record_use(block, use);
  return {};
}

void PagedEngine::update_fast_path() noexcept {
  pending_.publish();
  const PendingFrees& frees = streams_.frees();
  fast_path_.set_enabled(!pools_.has_routes() && !frees.has_deferred() &&
                         frees.capture_count() == 0 && error_.ok() && misses_.is_caching());
}

void PagedEngine::notify_observers() {
  notify_trackers();
  views_.observers().notify();
}

// Called after the operation. If host memory is exhausted, a later operation notifies the trackers.
void PagedEngine::notify_trackers() {
  catch_bad_alloc([this] { tracer_.notify(); });
}

Arena& PagedEngine::find_default_arena(StreamId stream) {
  EngineLock lock(mutex_);
  Arena& arena = pools_.arena_of(pools_.default_pool(), stream);
  fast_path_.arenas().insert(arena);
  return arena;
}

Status PagedEngine::trim(PoolId pool, StackId stack) {
  Status trimmed = [&] {
    EngineLock lock(mutex_);
    const FastPathUpdate update(*this);
    tracer_.set_stack(stack);
    if (!pool.is_default() && pools_.find(pool) == nullptr) return no_such_pool(pool);
    return finish_trim(trimmer_.trim(pool));
  }();
  peaks_.update_peaks();
  notify_observers();
  return trimmed;
}

Result<size_t> PagedEngine::trim_to(const TrimTarget& target) {
  Result<size_t> released = [&]() -> Result<size_t> {
    EngineLock lock(mutex_);
    const FastPathUpdate update(*this);
    tracer_.set_stack(target.stack);
    Result<size_t> bytes = trimmer_.trim_to(target);
    if (Status finished = finish_trim(bytes.status()); !finished.ok()) return finished;
    return bytes;
  }();
  peaks_.update_peaks();
  notify_observers();
  return released;
}

// Completes a trim that ended with `status`. Returns that error, or else a deferred error.
Status PagedEngine::finish_trim(Status status) {
  retirer_.enforce_bounds();
  backups_.free_discarded();
  segments_.return_to_sources();
  return status.ok() ? error_.take() : std::move(status);
}

Status PagedEngine::pause(std::string_view tag, bool keep_contents) {
  return change_pools(tag, keep_contents ? PoolTransition::kPauseAndKeep : PoolTransition::kPause);
}

Status PagedEngine::resume(std::string_view tag) {
  return change_pools(tag, PoolTransition::kResume);
}

Status PagedEngine::change_pools(std::string_view tag, PoolTransition transition) {
  Status changed = [&] {
    EngineLock lock(mutex_);
    const FastPathUpdate update(*this);
    Status status = pauser_.change(tag, transition, lock);
    segments_.return_to_sources();
    return status;
  }();
  peaks_.update_peaks();
  notify_observers();
  return changed;
}

Status PagedEngine::create_pool(PoolId pool, PoolOptions options) {
  if (Status checked = check_tag(options); !checked.ok()) return checked;
  EngineLock lock(mutex_);
  return pools_.create(pool, std::move(options));
}

Status PagedEngine::retain_pool(PoolId pool) {
  EngineLock lock(mutex_);
  return pools_.routes().retain(pool);
}

Status PagedEngine::release_pool(PoolId pool) {
  EngineLock lock(mutex_);
  return pools_.routes().release(pool);
}

Result<int> PagedEngine::pool_use_count(PoolId pool) const {
  EngineLock lock(mutex_);
  return pools_.routes().use_count(pool);
}

Status PagedEngine::set_pool_use_on_oom(PoolId id, bool use_on_oom) {
  EngineLock lock(mutex_);
  PagedPool* pool = pools_.find(id);
  if (pool == nullptr || id.is_default()) return no_such_pool(id);
  pool->options.use_on_oom = use_on_oom;
  return {};
}

Status PagedEngine::set_pool_no_split(PoolId id) {
  EngineLock lock(mutex_);
  PagedPool* pool = pools_.find(id);
  if (pool == nullptr || id.is_default()) return no_such_pool(id);
  const bool is_in_use = pool->has_memory() || pool->in_flight_count != 0;
  if (is_in_use) return pool_has_memory_error(id);
  if (!pool->options.tag.empty()) return whole_segments_error(pool->options.tag, "no_split");
  pool->options.no_split = true;
  pool->is_plain = true;
  return {};
}

Status PagedEngine::begin_routing(PoolId pool, RouteFilter filter) {
  EngineLock lock(mutex_);
  Status begun = pools_.begin_routing(pool, std::move(filter));
  update_fast_path();
  return begun;
}

Status PagedEngine::end_routing(PoolId pool) {
  RouteFilter ended;  // user code, destroyed after the lock is released
  EngineLock lock(mutex_);
  Result<RouteFilter> filter = pools_.end_routing(pool);
  if (!filter.ok()) return filter.status();
  ended = *std::move(filter);
  streams_.frees().clear_graph_cache();
  update_fast_path();
  return {};
}

void PagedEngine::capture_began() {
  EngineLock lock(mutex_);
  streams_.frees().capture_began();
  update_fast_path();
}

Status PagedEngine::capture_ended() {
  EngineLock lock(mutex_);
  Status ended = streams_.frees().capture_ended();
  update_fast_path();
  return ended;
}

Result<PoolCheckpoint> PagedEngine::checkpoint(PoolId id) {
  EngineLock lock(mutex_);
  PagedPool* pool = pools_.find(id);
  if (pool == nullptr || id.is_default()) return no_such_pool(id);
  if (pools_.is_freeable(id)) {
    return Status::invalid_argument(text("pool ", id, " was released: it has no checkpoint"));
  }
  if (Status collected = pending_.collect(); !collected.ok()) return collected;
  return PoolCheckpointer::take(*pool);
}

Result<RestoreResult> PagedEngine::restore(const PoolCheckpoint& checkpoint) {
  Result<RestoreResult> change = [&] {
    EngineLock lock(mutex_);
    const FastPathUpdate update(*this);
    tracer_.set_stack({});
    return restore_locked(checkpoint);
  }();
  peaks_.update_peaks();
  notify_trackers();
  return change;
}

Result<RestoreResult> PagedEngine::restore_locked(const PoolCheckpoint& checkpoint) {
  PagedPool* pool = pools_.find(checkpoint.pool);
  if (pool == nullptr || checkpoint.pool.is_default()) return no_such_pool(checkpoint.pool);
  if (pool->is_paused) return pool_paused_error(*pool);
  if (Status collected = pending_.collect(); !collected.ok()) return collected;
  return PoolCheckpointer(pools_, stitcher_, tracer_, error_).restore(*pool, checkpoint);
}

Status PagedEngine::set_memory_fraction(double fraction) {
  if (!(fraction >= 0 && fraction <= 1)) {
    return Status::invalid_argument(text("a memory fraction of ", fraction, " (expected 0 to 1)"));
  }
  EngineLock lock(mutex_);
  extents_.set_memory_fraction(fraction);
  return {};
}

double PagedEngine::memory_fraction() const {
  EngineLock lock(mutex_);
  return extents_.memory_fraction();
}

void PagedEngine::set_caching(bool caching) {
  EngineLock lock(mutex_);
  misses_.set_caching(caching);
  update_fast_path();
}

bool PagedEngine::is_caching() const {
  EngineLock lock(mutex_);
  return misses_.is_caching();
}

}  // namespace ashlar::paged
