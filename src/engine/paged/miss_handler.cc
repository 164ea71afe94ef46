// SPDX-License-Identifier: Apache-2.0
//
// Implements the steps of a miss, in the order in which they are tried.
#include "engine/paged/miss_handler.h"

#include <string>
#include <utility>

#include "base/host_memory.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/oom_report.h"

namespace ashlar::paged {
namespace {

constexpr double kAnyWaste = 1e9;  // as a multiple of the request: accepts any block

bool is_oom(const Result<Block*>& result) {
  return !result.ok() && result.status().is_out_of_memory();
}

// Returns the use counts of the arenas whose streams have been destroyed.
std::map<Arena*, int64_t> count_uses_of_destroyed_streams(const PagedPool& pool) {
  std::map<Arena*, int64_t> uses;
  const ArenaLocks lock(pool);
  for (const auto& [stream, arena] : pool.arenas) {
    if (arena->is_stream_destroyed) uses[arena.get()] = arena->use_count();
  }
  return uses;
}

}  // namespace

Result<Block*> MissHandler::allocate(const AllocationRequest& request) {
  const StreamId stream = request.stream;
  if (Status polled = deps_.pending.poll(stream); !polled.ok()) return polled;
  SlowPathRequest slow;
  slow.request = request;
  slow.block_bytes = SizeClasses::block_bytes(request.bytes);
  slow.is_small = SizePolicy::is_small(slow.block_bytes);
  slow.pool = &deps_.pools.pool_for(stream);
  if (slow.pool->is_paused) return pool_paused_error(*slow.pool);
  slow.arena = &deps_.pools.arena_of(*slow.pool, stream);
  const bool is_capturing = deps_.streams.is_capturing(stream);
  if (is_capturing) slow.pool->has_recorded_addresses = true;

  // The count keeps the pool from being destroyed while the lock is released.
  ++slow.pool->in_flight_count;
  ScopeGuard end([&] { --slow.pool->in_flight_count; });
  // During a capture, uses cached memory even if caching is off: a graph needs its memory at every
  // launch, so a free must not return it to the device.
  Result<Block*> found = is_caching_ || is_capturing ? find_or_grow(slow) : allocate_uncached(slow);
  return is_oom(found) ? report_oom(slow) : std::move(found);
}

Result<Block*> MissHandler::find_or_grow(SlowPathRequest& request) {
  Block* block = take_cached(request, config_.max_waste);
  if (block == nullptr && call_free_memory_callbacks() && !request.pool->is_paused) {
    block = take_cached(request, config_.max_waste);
  }
  if (block != nullptr) return block;
  if (!request.is_small) request.pool->typical_block.add(request.block_bytes);
  Result<Block*> grown = grow(request);
  return is_oom(grown) ? reclaim_and_retry(request, grown.status()) : std::move(grown);
}

// Allocates a segment that contains only this block and is released when the block is freed.
Result<Block*> MissHandler::allocate_uncached(SlowPathRequest& request) {
  Result<Block*> grown = grow_plain(request, request.block_bytes);
  if (is_oom(grown) && !request.is_rejected && call_free_memory_callbacks()) {
    if (request.pool->is_paused) return pool_paused_error(*request.pool);
    grown = grow_plain(request, request.block_bytes);
  }
  if (is_oom(grown) && !request.is_rejected) {
    if (Status trimmed = deps_.trimmer.trim({}); !trimmed.ok()) return trimmed;
    deps_.peaks.count_retry();
    grown = grow_plain(request, request.block_bytes);
  }
  if (grown.ok()) (*grown)->is_uncached = true;
  return grown;
}

Block* MissHandler::take_cached(const SlowPathRequest& request, double max_waste) {
  Arena& arena = *request.arena;
  BiasedLock lock(arena.lock);
  PagedBlock* block = arena.take(request.block_bytes, max_waste);
  if (block == nullptr && !arena.return_queue.empty()) {
    arena.fill_reserve();
    deps_.mover.return_displaced(arena);
    block = arena.take(request.block_bytes, max_waste);
  }
  if (block == nullptr) return nullptr;
  Arena::mark_allocated(arena.sub_arena(block->is_small), block, request.request.bytes,
                        request.request.stack);
  deps_.tracer.trace_alloc(*block);
  return block;
}

bool MissHandler::call_free_memory_callbacks() {
  if (!deps_.tracer.hooks().has_free_memory_callbacks()) return false;
  EngineUnlock unlocked(deps_.mutex);
  return deps_.tracer.hooks().run_free_memory_callbacks();
}

Result<Block*> MissHandler::grow(SlowPathRequest& request) {
  if (request.pool->is_paused) return pool_paused_error(*request.pool);
  if (request.pool->is_plain) {
    if (Block* block = take_cached(request, kAnyWaste)) return block;
    return grow_plain(request, segment_sizes_.segment_bytes(request.block_bytes));
  }
  // Refused before planning, because the list of extents for a huge size would exhaust host memory.
  if (request.block_bytes > config_.capacity_bytes) {
    request.device_bytes = request.block_bytes;
    return Status::out_of_memory("more than the device has");
  }
  Result<Block*> stitched = deps_.stitcher.allocate(request);
  if (!is_oom(stitched) || !request.is_over_budget) return stitched;
  request.ignores_budget = true;
  return deps_.stitcher.allocate(request);
}

Result<Block*> MissHandler::grow_plain(SlowPathRequest& request, size_t segment_bytes) {
  Status allowed = deps_.extents.check_limit(request, segment_bytes);
  if (!allowed.ok()) return allowed;
  return deps_.segments.allocate(request, segment_bytes);
}

Result<Block*> MissHandler::reclaim_and_retry(SlowPathRequest& request, Status reason) {
  if (request.is_rejected) return reason;
  if (Block* borrowed = borrow_from_overflow_pools(request)) return borrowed;
  if (deps_.streams.is_capturing(request.request.stream)) return reason;
  if (Status waited = deps_.pending.wait({}); !waited.ok()) return waited;
  Result<Block*> grown = grow(request);
  if (!is_oom(grown)) return grown;

  if (request.lacks_mappings) {
    if (Status retired = deps_.retirer.retire_all(); !retired.ok()) return retired;
    grown = grow(request);
    if (!is_oom(grown)) return grown;
  }
  grown = retry_with_destroyed_streams(request, std::move(grown));
  if (!is_oom(grown)) return grown;

  // Releases memory that this request cannot use: segments, freeable pools, and extents of other
  // sizes.
  if (Status trimmed = deps_.trimmer.trim({}); !trimmed.ok()) return trimmed;
  deps_.peaks.count_retry();
  return grow(request);
}

// Synchronizes the device and grows again with the idle memory of destroyed streams, the only idle
// memory of the pool that earlier plans did not consider. Tries twice, because other threads may
// use some of this memory while the device is synchronized. Keeps the engine's lock meanwhile, so
// that no capture can be announced (capture_began): synchronizing the device would invalidate it.
Result<Block*> MissHandler::retry_with_destroyed_streams(SlowPathRequest& request,
                                                         Result<Block*> grown) {
  for (int i = 0; i < 2 && deps_.streams.capture_count() == 0; ++i) {
    const std::map<Arena*, int64_t> destroyed = count_uses_of_destroyed_streams(*request.pool);
    if (destroyed.empty()) break;
    if (Status waited = config_.device.synchronize_device(); !waited.ok()) return waited;
    for (const auto& [arena, use_count] : destroyed) arena->quiescent_use_count = use_count;
    const ScopeGuard end([&] {
      for (const auto& [arena, use_count] : destroyed) arena->quiescent_use_count.reset();
    });
    grown = grow(request);
    if (!is_oom(grown)) break;
  }
  return grown;
}

// Serves a request of the default pool with a cached block of a retained pool with `use_on_oom`.
// Never grows that pool.
Block* MissHandler::borrow_from_overflow_pools(const SlowPathRequest& request) {
  if (!request.pool->id.is_default()) return nullptr;
  for (const auto& [id, pool] : deps_.pools.all()) {
    if (!pool->options.use_on_oom || pool->is_paused || deps_.pools.is_freeable(id)) continue;
    const auto arena = pool->arenas.find(request.request.stream);
    if (arena == pool->arenas.end()) continue;
    SlowPathRequest borrowed = request;
    borrowed.arena = arena->second.get();
    if (Block* block = take_cached(borrowed, kAnyWaste)) return block;
  }
  return nullptr;
}

Status MissHandler::report_oom(const SlowPathRequest& request) {
  const Result<DeviceMemoryStats> use = config_.device.memory_stats();
  const size_t device_free_bytes = use.ok() ? use->free_bytes : 0;
  const OomUsage usage = deps_.peaks.count_oom(request.is_rejected);
  const size_t limit_bytes = deps_.extents.limit_bytes();
  std::string message =
      text("tried to allocate ", format_bytes(request.request.bytes), " (",
           format_bytes(request.device_bytes), " more from the device) on device ", config_.index,
           ", which has ", format_bytes(config_.capacity_bytes), " in total and ",
           format_bytes(device_free_bytes), " free. ");
  if (deps_.extents.memory_fraction() < 1) {
    message += text("The memory limit of this process is ", format_bytes(limit_bytes), ". ");
  }
  message += describe_usage(usage);
  if (request.lacks_mappings) {
    message += text(" The device has no mappings or addresses left; this allocator uses ",
                    deps_.views.usage().mappings, " mappings.");
  }
  if (config_.granule_bytes == 0) {
    message += " The device cannot map memory at several addresses, so plain segments are used.";
  }
  if (!request.is_rejected) {
    TraceEntry entry;
    entry.action = TraceAction::kOom;
    entry.address = DeviceAddress(device_free_bytes);
    entry.bytes = request.block_bytes;
    entry.stream = request.request.stream;
    entry.pool = request.pool->id;
    entry.stack = deps_.tracer.stack();
    deps_.tracer.hooks().record(entry);
  }
  const OomNotice notice{config_.index, request.device_bytes, limit_bytes, device_free_bytes};
  EngineUnlock unlocked(deps_.mutex);
  deps_.tracer.hooks().notify_oom(notice, request.is_rejected);
  // Names other processes only if the device lacked memory, not if the limit refused the request.
  if (device_free_bytes < request.device_bytes) {
    message += describe_device_processes(config_.device, usage.reserved_bytes);
  }
  return Status::out_of_memory(std::move(message));
}

}  // namespace ashlar::paged
