// SPDX-License-Identifier: Apache-2.0
//
// Engine functions that mostly forward to a component: pools, captures, checkpoints, sharing,
// limits, statistics, snapshots and hooks.
#include <algorithm>

#include "base/text.h"
#include "engine/classic/checkpoint.h"
#include "engine/classic/engine_lock.h"
#include "engine/classic/heap_inspection.h"

namespace ashlar::classic {

Status ClassicEngine::create_pool(PoolId pool, PoolOptions options) {
  MutexLock lock(mutex_);
  return pools_.create(pool, std::move(options));
}

Status ClassicEngine::retain_pool(PoolId pool) {
  MutexLock lock(mutex_);
  return pools_.retain(pool);
}

Status ClassicEngine::release_pool(PoolId pool) {
  MutexLock lock(mutex_);
  return pools_.release(pool);
}

Result<int> ClassicEngine::pool_use_count(PoolId pool) const {
  MutexLock lock(mutex_);
  return pools_.use_count(pool);
}

Status ClassicEngine::set_pool_use_on_oom(PoolId id, bool use_on_oom) {
  MutexLock lock(mutex_);
  PrivatePool* pool = pools_.find(id);
  if (pool == nullptr) return no_such_pool(id);
  pool->options.use_on_oom = use_on_oom;
  return {};
}

Status ClassicEngine::set_pool_no_split(PoolId id) {
  MutexLock lock(mutex_);
  PrivatePool* pool = pools_.find(id);
  if (pool == nullptr) return no_such_pool(id);
  if (pool->segment_count != 0) return pool_has_memory_error(id);
  pool->options.no_split = true;
  return {};
}

Status ClassicEngine::begin_routing(PoolId pool, RouteFilter filter) {
  MutexLock lock(mutex_);
  return pools_.begin_routing(pool, std::move(filter));
}

Status ClassicEngine::end_routing(PoolId pool) {
  Result<RouteFilter> ended = RouteFilter();  // destroyed after the lock: the filter is user code
  MutexLock lock(mutex_);
  ended = pools_.end_routing(pool);
  if (ended.ok()) pending_.clear_graph_cache();
  return ended.status();
}

Result<std::vector<DeviceAddress>> ClassicEngine::live_in_pool(PoolId pool) const {
  MutexLock lock(mutex_);
  const PrivatePool* wanted = pools_.find(pool);
  if (wanted == nullptr && !pool.is_default()) return no_such_pool(pool);
  return live_addresses(heap_, wanted);
}

void ClassicEngine::capture_began() {
  MutexLock lock(mutex_);
  pending_.capture_began();
}

Status ClassicEngine::capture_ended() {
  MutexLock lock(mutex_);
  return pending_.capture_ended();
}

Result<PoolCheckpoint> ClassicEngine::checkpoint(PoolId id) {
  OperationLock lock(*this, {});
  const PrivatePool* pool = pools_.find(id);
  if (pool == nullptr) return no_such_pool(id);
  if (pools_.is_freeable(id)) {
    return Status::invalid_argument(text("pool ", id, " was released: it has no checkpoint"));
  }
  if (Status collected = collect_deferred(); !collected.ok()) return collected;
  return take_checkpoint(*pool, heap_);
}

Result<RestoreResult> ClassicEngine::restore(const PoolCheckpoint& checkpoint) {
  OperationLock lock(*this, {});
  const PrivatePool* pool = pools_.find(checkpoint.pool);
  if (pool == nullptr) return no_such_pool(checkpoint.pool);
  if (Status collected = collect_deferred(); !collected.ok()) return collected;
  return restore_checkpoint(checkpoint, *pool, heap_);
}

BlockMemory ClassicEngine::block_memory(const Block* shared) const {
  const ClassicBlock* block = as_classic(shared);
  MutexLock lock(mutex_);
  BlockMemory memory;
  if (block->expandable != nullptr) {
    const ExpandableSegment& segment = *block->expandable;
    memory.origin = BlockMemory::Origin::kExtents;
    memory.granule_bytes = segment.granule_bytes();
    memory.can_export_fd = segment.can_export_fd();
    memory.range = segment.granules_around({block->address, block->bytes});
    memory.extents = segment.extents_in(memory.range);
    return memory;
  }
  if (pools_.source_of(*block->pool) != nullptr) memory.origin = BlockMemory::Origin::kSource;
  memory.range = segment_range(*block);
  return memory;
}

Status ClassicEngine::add_accessor(DeviceIndex accessor) {
  MutexLock lock(mutex_);
  return expandables_.add_accessor(accessor);
}

bool ClassicEngine::is_accessor(DeviceIndex device) const {
  MutexLock lock(mutex_);
  return expandables_.is_accessor(device);
}

Status ClassicEngine::set_memory_fraction(double fraction) {
  if (!(fraction >= 0 && fraction <= 1)) {
    return Status::invalid_argument(text("a memory fraction of ", fraction, " (expected 0 to 1)"));
  }
  MutexLock lock(mutex_);
  limit_.set_fraction(fraction);
  return {};
}

double ClassicEngine::memory_fraction() const {
  MutexLock lock(mutex_);
  return limit_.fraction();
}

ClassicEngine::ReservedBytes ClassicEngine::reserved() const {
  MutexLock lock(mutex_);
  return {stats_.reserved_bytes(), stats_.default_pool_bytes()};
}

void ClassicEngine::set_caching(bool caching) {
  MutexLock lock(mutex_);
  caching_ = caching;
}

bool ClassicEngine::is_caching() const {
  MutexLock lock(mutex_);
  return caching_;
}

void ClassicEngine::set_stream_class(StreamId stream, std::string name) {
  MutexLock lock(mutex_);
  expandables_.reserve_policy().set_stream_class(stream, std::move(name));
}

std::string ClassicEngine::stream_class(StreamId stream) const {
  MutexLock lock(mutex_);
  return expandables_.reserve_policy().stream_class(stream);
}

void ClassicEngine::set_default_class_fraction(const std::string& name, double capacity_fraction) {
  MutexLock lock(mutex_);
  expandables_.reserve_policy().set_default_fraction(name, capacity_fraction);
}

size_t ClassicEngine::largest_cached_bytes() const {
  MutexLock lock(mutex_);
  size_t largest_bytes = 0;
  heap_.for_each([&](const ClassicBlock* block) {
    if (block->state == BlockState::kFree) largest_bytes = std::max(largest_bytes, block->bytes);
  });
  return largest_bytes;
}

std::vector<ExpandableSegmentStats> ClassicEngine::expandable_segments() const {
  MutexLock lock(mutex_);
  return expandables_.usage();
}

EngineSnapshot ClassicEngine::take_snapshot(std::optional<PoolId> pool) {
  EngineSnapshot snapshot;
  OperationLock lock(*this, {});
  snapshot_segments(heap_, device_.properties().index, pool, snapshot);
  ClassicBlock none;
  none.pool = &pools_.large();
  tracer_.record(TraceAction::kSnapshot, none,
                 static_cast<size_t>(stats_.stats().active_bytes.all.current));
  snapshot.position = history().position();
  return snapshot;
}

std::vector<StackId> ClassicEngine::stacks_in_use() const {
  MutexLock lock(mutex_);
  std::vector<StackId> stacks;
  heap_.for_each([&](const ClassicBlock* block) {
    if (block->is_active()) stacks.push_back(block->stack);
    stacks.push_back(block->segment_stack);
  });
  return stacks;
}

Status ClassicEngine::annotate(DeviceAddress address, const std::string& annotation) {
  MutexLock lock(mutex_);
  const ClassicBlock* found = nullptr;
  heap_.for_each([&](const ClassicBlock* block) {
    if (block->is_allocated() && block->address == address) found = block;
  });
  if (found == nullptr) return Status::invalid_argument(text("no live block starts at ", address));
  tracer_.record_annotation(*found, annotation);
  return {};
}

AllocatorStats ClassicEngine::stats() const {
  MutexLock lock(mutex_);
  return stats_.stats();
}

void ClassicEngine::reset_peak_stats() {
  MutexLock lock(mutex_);
  stats_.stats().reset_peaks();
}

void ClassicEngine::reset_total_stats() {
  MutexLock lock(mutex_);
  stats_.stats().reset_totals();
}

Status ClassicEngine::validate() const {
  MutexLock lock(mutex_);
  return validate_heap(heap_, pools_, stats_);
}

void ClassicEngine::add_tracker(TraceTracker tracker) { hooks_.add_tracker(std::move(tracker)); }

void ClassicEngine::add_oom_observer(std::function<void(const OomNotice&)> observer) {
  hooks_.add_oom_observer(std::move(observer));
}

void ClassicEngine::add_rejection_observer(std::function<void(const OomNotice&)> observer) {
  hooks_.add_rejection_observer(std::move(observer));
}

void ClassicEngine::add_free_memory_callback(std::function<bool()> callback) {
  hooks_.add_free_memory_callback(std::move(callback));
}

}  // namespace ashlar::classic
