// SPDX-License-Identifier: Apache-2.0
//
// Implements the reclaim steps that an allocation tries when memory runs out, trimming, and the
// out-of-memory report.
#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "device/relaxed_capture.h"
#include "engine/classic/engine_lock.h"
#include "engine/oom_report.h"

namespace ashlar::classic {

Result<ClassicBlock*> ClassicEngine::reclaim_and_retry(AllocParams& params, Status why) {
  if (params.rejected) return why;
  if (ClassicBlock* borrowed = borrow_from_overflow_pools(params)) {
    params.expandable = false;  // as in PyTorch, the rule for plain segments splits the block
    return borrowed;
  }
  if (reclaimer_.release_oversize(params)) {
    return_queued_segments();
    Result<ClassicBlock*> grown = grow(params);
    if (grown.ok() || !grown.status().is_out_of_memory()) return grown;
  }
  if (pending_.is_capturing({&device_, params.request.stream})) return why;
  // PyTorch waits for all pending frees and releases the whole cache. Without pytorch_compatible,
  // the engine first only waits and keeps the cache, because the blocks that become free often
  // suffice.
  if (!options_.pytorch_compatible) {
    if (Status waited = wait_for_pending({}); !waited.ok()) return waited;
    if (ClassicBlock* block = take_cached(params)) return block;
  }
  return release_all_and_retry(params);
}

// Releases the whole cache and tries to grow. While the lock is released, other threads may free
// more blocks into the cache; if any did and memory ran out again, repeats both steps. If the lock
// is held throughout, as in PyTorch, the loop runs once.
Result<ClassicBlock*> ClassicEngine::release_all_and_retry(AllocParams& params) {
  while (true) {
    const int64_t frees_before = stats_.stats().allocation.all.decreased;
    if (Status released = release_cached({}); !released.ok()) return released;
    ++stats_.stats().alloc_retries;
    Result<ClassicBlock*> grown = grow(params);
    const bool is_full = !grown.ok() && grown.status().is_out_of_memory();
    if (!is_full || stats_.stats().allocation.all.decreased == frees_before) return grown;
  }
}

// Serves a request of the default pool with a cached block of a retained pool with use_on_oom.
// Never grows that pool.
ClassicBlock* ClassicEngine::borrow_from_overflow_pools(const AllocParams& params) {
  if (params.pool->owner() != nullptr) return nullptr;
  for (PrivatePool* pool : pools_.private_pools()) {
    if (!pool->options.use_on_oom || pools_.is_freeable(pool->id)) continue;
    FreePool& lender = params.pool->is_small() ? pool->small : pool->large;
    const FitQuery query{params.request.stream, params.block_bytes, false};
    if (ClassicBlock* block = lender.take_best_fit(query, sizes_)) return block;
  }
  return nullptr;
}

Status ClassicEngine::trim(PoolId pool, StackId stack) {
  OperationLock lock(*this, stack);
  if (!pool.is_default() && pools_.find(pool) == nullptr) return no_such_pool(pool);
  Status released = release_cached(pool);
  return released.ok() ? reclaimer_.take_deferred_error() : released;
}

Result<size_t> ClassicEngine::trim_to(const TrimTarget& target) {
  OperationLock lock(*this, target.stack);
  const RelaxedCapture relaxed(device_, pending_.capture_count());
  if (!relaxed.status().ok()) return relaxed.status();
  const bool may_wait = target.wait == TrimWait::kForWork;
  Status collected = may_wait ? wait_for_pending({}) : collect_finished();
  if (!collected.ok()) return collected;
  const size_t released_bytes = reclaimer_.release_to(target);
  pools_.erase_empty({});
  if (Status deferred = reclaimer_.take_deferred_error(); !deferred.ok()) return deferred;
  return released_bytes;
}

Status ClassicEngine::collect_finished() {
  std::vector<Block*> finished;
  Status collected = pending_.collect(finished);
  return complete_frees(std::move(collected), finished);
}

// Waits for the pending frees of one pool, or of all pools if `pool` is the default one.
Status ClassicEngine::wait_for_pending(PoolId pool) {
  ++stats_.stats().sync_all_streams;
  std::function<bool(const Block&)> wanted;
  if (!pool.is_default()) {
    wanted = [pool](const Block& block) {
      const PrivatePool* owner = as_classic(&block)->pool->owner();
      return owner != nullptr && owner->id == pool;
    };
  }
  std::vector<Block*> finished;
  Status waited = pending_.wait(finished, wanted);
  return complete_frees(std::move(waited), finished);
}

// Releases the cached memory of one freeable pool or, if `pool` is the default one, of all freeable
// pools and, except during captures, of the default pool.
Status ClassicEngine::release_cached(PoolId pool) {
  if (pool.is_default() && pending_.capture_count() == 0) {
    if (Status waited = wait_for_pending({}); !waited.ok()) return waited;
    reclaimer_.release_free_blocks(pools_.large());
    reclaimer_.release_free_blocks(pools_.small());
  }
  for (PrivatePool* candidate : pools_.freeable_pools()) {
    if (!pool.is_default() && candidate->id != pool) continue;
    if (!pool.is_default()) {
      if (Status waited = wait_for_pending(pool); !waited.ok()) return waited;
    }
    reclaimer_.release_free_blocks(candidate->small);
    reclaimer_.release_free_blocks(candidate->large);
  }
  pools_.erase_empty(pool);
  return_queued_segments();
  wait_for_segment_returns();
  return pool.is_default() ? trim_caching_source() : Status();
}

void ClassicEngine::release_leftovers() {
  for (FreePool* pool : {&pools_.small(), &pools_.large()}) {
    if (pool->blocks().first() != nullptr) reclaimer_.release_free_blocks(*pool);
  }
  return_queued_segments();
}

void ClassicEngine::return_queued_segments() {
  while (!returns_.empty()) {
    Unlock unlocked(*this);
    returns_.flush(device_);
  }
}

// Waits, for at most one second, until other threads have returned segments to their sources,
// because until then the memory of these segments is not available to the device.
void ClassicEngine::wait_for_segment_returns() {
  if (!returns_.is_flushed_by_another_thread()) return;
  Unlock unlocked(*this);
  returns_.wait_for_other_threads();
}

Status ClassicEngine::trim_caching_source() {
  if (!pools_.source_caches()) return {};
  Unlock unlocked(*this);
  const RelaxedCapture relaxed(device_);  // a capture may begin while the lock is not held
  return relaxed.status().ok() ? trim_source() : relaxed.status();
}

Status ClassicEngine::report_oom(const AllocParams& params, const Status& why) {
  const Result<DeviceMemoryStats> memory = device_.memory_stats();
  const size_t device_free_bytes = memory.ok() ? memory->free_bytes : 0;
  const size_t reserved_bytes = stats_.reserved_bytes();
  std::string message = oom_message(params, why, device_free_bytes);
  if (!params.rejected) {
    ++stats_.stats().ooms;
    ClassicBlock none;
    none.address = DeviceAddress(device_free_bytes);  // PyTorch's encoding of the free memory
    none.stream = params.request.stream;
    none.pool = params.pool;
    tracer_.record(TraceAction::kOom, none, params.block_bytes);
  }
  const OomNotice notice{device_.properties().index, params.segment_bytes, limit_.bytes(),
                         device_free_bytes};
  Unlock unlocked(*this);
  hooks_.notify_oom(notice, params.rejected);
  // Other processes are relevant only if the device itself lacks memory, and not if a limit or a
  // custom source refused the request.
  if (device_free_bytes < params.segment_bytes) {
    message += describe_device_processes(device_, reserved_bytes);
  }
  return Status::out_of_memory(std::move(message));
}

std::string ClassicEngine::oom_message(const AllocParams& params, const Status& why,
                                       size_t device_free_bytes) {
  const PrivatePool* owner = params.pool->owner();
  const bool has_source = pools_.source_of(*params.pool) != nullptr;
  const OomUsage usage = stats_.oom_usage();
  std::string message =
      text("tried to allocate ", format_bytes(params.request.bytes), " (a segment of ",
           format_bytes(params.segment_bytes), ") on device ", device_.properties().index,
           ", which has ", format_bytes(limit_.capacity_bytes()), " in total and ",
           format_bytes(device_free_bytes), " free. ");
  if (has_source && owner != nullptr) {
    message += text("Pool ", owner->id, " has its own source: ", why.message(), ". ");
  } else if (has_source) {
    message += text("The memory comes from a custom source: ", why.message(), ". ");
  }
  if (limit_.is_set()) {
    message += text("The memory limit of this process is ", format_bytes(limit_.bytes()), ". ");
  }
  message += describe_usage(usage);
  const size_t unallocated_bytes = usage.reserved_bytes - usage.allocated_bytes;
  if (!options_.expandable_segments && !has_source && unallocated_bytes > params.segment_bytes) {
    message += " If this is fragmentation, expandable_segments:True may avoid it.";
  }
  return message + expandables_.reserve_hint(params);
}

}  // namespace ashlar::classic
