// SPDX-License-Identifier: Apache-2.0
//
// Implements allocation, freeing and stream use. Start reading at `allocate`.
#include "host/pinned_allocator.h"

#include <algorithm>

#include "base/host_memory.h"
#include "base/text.h"
#include "base/units.h"
#include "device/relaxed_capture.h"

namespace ashlar {
namespace {

// Appends `value` unless the vector already contains it. Returns whether it was appended.
template <typename T>
bool add_once(std::vector<T>& all, const T& value) {
  if (std::find(all.begin(), all.end(), value) != all.end()) return false;
  all.push_back(value);
  return true;
}

}  // namespace

Result<std::unique_ptr<PinnedAllocator>> PinnedAllocator::create(Device& device,
                                                                 const AllocatorOptions& options,
                                                                 Clock& clock) {
  std::unique_ptr<PinnedAllocator> made(new PinnedAllocator(device, options, clock));
  const int64_t began_ns = clock.now_ns();
  if (Status reserved = made->source_.reserve(); !reserved.ok()) return reserved;
  if (options.pinned.reserve_segment_bytes != 0) {
    MutexLock lock(made->mutex_);
    ++made->stats_.host_allocs;
    made->stats_.host_alloc_time.record(clock.now_ns() - began_ns);
  }
  return made;
}

PinnedAllocator::PinnedAllocator(Device& device, const AllocatorOptions& options, Clock& clock)
    : device_(device),
      clock_(clock),
      size_policy_(options),
      source_(device, options.pinned),
      pools_(size_policy_),
      class_counts_(size_policy_.class_count()) {
  if (!options.pinned.use_background_threads) return;
  poller_ = std::make_unique<Poller>(clock, [this] { return collect_finished(IfBusy::kReturn); });
}

// Allocated blocks have no events, so the destructor waits for the devices of their streams. It
// retries a failed wait once, because no later call can retry or report the failure.
PinnedAllocator::~PinnedAllocator() {
  poller_.reset();
  pending_.wait_for_all();
  BlocksByAddress blocks;
  {
    MutexLock lock(mutex_);
    blocks.swap(by_address_);
  }
  Device* waited_for = nullptr;  // skips repeated waits for one device
  for (const auto& [begin, block] : blocks) {
    if (block->state == PinnedState::kPending) continue;
    for (const DeviceStream& use : block->uses) {
      if (use.device == waited_for) continue;
      waited_for = use.device;
      const RelaxedCapture relaxed(*use.device);
      if (!use.device->synchronize_device().ok()) (void)use.device->synchronize_device().ok();
    }
  }
  for (const auto& [begin, block] : blocks) {
    if (block->memory.origin == PinnedOrigin::kReserved) continue;
    if (!source_.release(block->memory).ok()) (void)source_.release(block->memory).ok();
  }
}

Result<PinnedBlock*> PinnedAllocator::allocate(size_t bytes, StreamId stream) {
  if (bytes == 0) return Status::invalid_argument("cannot allocate 0 B of pinned memory");
  if (bytes >= PinnedSizePolicy::kRequestLimitBytes) {
    return report_oom(bytes, Status::out_of_memory("no host has an exabyte"));
  }
  PinnedPool* pool = nullptr;
  {
    MutexLock lock(mutex_);
    if (must_poll_pending()) {
      MutexUnlock unlocked(mutex_);
      collect_finished(IfBusy::kReturn);
    }
    if (!deferred_error_.ok()) return std::exchange(deferred_error_, {});
    pool = &pools_.pool_for(stream);
    if (PinnedBlock* block = take_cached(*pool, bytes)) return block;
    ++pool->in_flight_count;
  }
  Result<PinnedBlock*> grown = without_bad_alloc([&] { return grow(*pool, bytes); });
  MutexLock lock(mutex_);
  --pool->in_flight_count;
  return grown;
}

PinnedBlock* PinnedAllocator::take_cached(PinnedPool& pool, size_t bytes) {
  PinnedBlock* block = pool.cache.take(size_policy_.fit(bytes));
  return block == nullptr ? nullptr : hand_out(block, bytes);
}

// Obtains a new block. If host memory runs out, first collects freed blocks whose work has
// finished, and releases the cache only if none of these blocks fits.
Result<PinnedBlock*> PinnedAllocator::grow(PinnedPool& pool, size_t bytes) {
  BlocksByAddress reserved = reserve_block();
  ScopeGuard return_record([&] {
    MutexLock lock(mutex_);
    unused_.push_back(reserved.begin()->second);
  });
  Result<PinnedMemory> memory = obtain(bytes);
  if (!memory.ok() && memory.status().is_out_of_memory()) {
    collect_finished(IfBusy::kWait);
    {
      MutexLock lock(mutex_);
      if (PinnedBlock* block = take_cached(pool, bytes)) return block;
      ++stats_.alloc_retries;
    }
    release_cached();
    memory = obtain(bytes);
  }
  if (!memory.ok() && memory.status().is_out_of_memory()) {
    return report_oom(bytes, memory.status());
  }
  if (!memory.ok()) return memory.status();
  MutexLock lock(mutex_);
  return_record.dismiss();
  auto record = reserved.extract(reserved.begin());
  return hand_out(create_block(pool, *memory, std::move(record)), bytes);
}

Result<PinnedMemory> PinnedAllocator::obtain(size_t bytes) {
  const int64_t began_ns = clock_.now_ns();
  Result<PinnedMemory> memory = source_.obtain(size_policy_.fit(bytes).block_bytes);
  const int64_t took_ns = clock_.now_ns() - began_ns;
  if (!memory.ok() || memory->origin == PinnedOrigin::kReserved) return memory;
  MutexLock lock(mutex_);
  ++stats_.host_allocs;
  stats_.host_alloc_time.record(took_ns);
  return memory;
}

PinnedAllocator::BlocksByAddress PinnedAllocator::reserve_block() {
  BlocksByAddress reserved;
  PinnedBlock*& record = reserved[nullptr];
  MutexLock lock(mutex_);
  record = unused_.pop_front();
  if (record == nullptr) {
    record = &blocks_.emplace_back();
    record->owner = this;
  }
  return reserved;
}

PinnedBlock* PinnedAllocator::create_block(PinnedPool& pool, const PinnedMemory& memory,
                                           BlocksByAddress::node_type reserved) {
  PinnedBlock* block = reserved.mapped();
  reserved.key() = memory.begin;
  by_address_.insert(std::move(reserved));
  block->memory = memory;
  block->pool = &pool;
  ++pool.block_count;
  block->state = PinnedState::kFree;
  ++class_counts_[size_policy_.class_of(memory.bytes)];
  stats_.allocations.increase(1);
  stats_.allocated_bytes.increase(static_cast<int64_t>(memory.bytes));
  return block;
}

PinnedBlock* PinnedAllocator::hand_out(PinnedBlock* block, size_t bytes) {
  block->state = PinnedState::kAllocated;
  block->requested_bytes = bytes;
  stats_.active_requests.increase(1);
  stats_.active_bytes.increase(static_cast<int64_t>(block->bytes()));
  stats_.requested_bytes.increase(static_cast<int64_t>(bytes));
  return block;
}

Status PinnedAllocator::report_oom(size_t bytes, const Status& why) {
  MutexLock lock(mutex_);
  ++stats_.ooms;
  const auto size = [](const Stat& stat) {
    return format_bytes(static_cast<size_t>(stat.current));
  };
  return Status::out_of_memory(
      text("tried to allocate ", format_bytes(bytes), " of pinned memory for device ",
           device_.properties().index, ": ", why.message(), ". This allocator holds ",
           size(stats_.allocated_bytes), " in ", stats_.allocations.current, " blocks, of which ",
           size(stats_.active_bytes), " are active: ", size(stats_.pending_bytes),
           " of those were freed and wait for streams, ", size(stats_.graph_bytes),
           " were freed and are kept for graphs"));
}

Status PinnedAllocator::free(PinnedBlock* block) {
  if (block == nullptr || block->owner != this) {
    return Status::invalid_argument("the block to be freed does not belong to this allocator");
  }
  bool is_used = false;
  bool any_to_release = false;
  bool any_pending = false;
  {
    MutexLock lock(mutex_);
    if (block->state != PinnedState::kAllocated) {
      return Status::invalid_argument(
          text("the block at ", block->memory.begin, " was freed already"));
    }
    is_used = finish_free(block);
    any_to_release = !to_release_.empty();
    any_pending = must_poll_pending();
  }
  if (is_used) {
    PinnedBlockList pending;
    pending.push_back(block);
    add_pending(pending);
  }
  if (any_to_release) release_queued();
  if (any_pending) collect_finished(IfBusy::kReturn);
  return {};
}

PinnedBlock* PinnedAllocator::find(const void* memory) const {
  const auto* at = static_cast<const std::byte*>(memory);
  const auto after = by_address_.upper_bound(at);
  if (after == by_address_.begin()) return nullptr;
  PinnedBlock* block = std::prev(after)->second;
  return at < block->memory.begin + block->bytes() ? block : nullptr;
}

Result<bool> PinnedAllocator::record_stream(PinnedBlock* block, const DeviceStream& use) {
  if (block == nullptr || block->owner != this) return false;
  if (use.device == nullptr) return Status::invalid_argument("record_stream needs a device");
  const Result<CaptureState> capture = capture_state(use);
  if (!capture.ok()) return capture.status();
  MutexLock lock(mutex_);
  if (block->state != PinnedState::kAllocated) {
    return Status::invalid_argument(text("a stream was recorded for the block at ",
                                         block->memory.begin, ", which was freed already"));
  }
  if (capture->status != CaptureStatus::kActive) {
    add_once(block->uses, use);
    return true;
  }
  std::vector<PinnedBlock*>& captured = captured_[capture->capture];
  reserve_amortized(captured, captured.size() + 1);
  if (add_once(block->captures, capture->capture)) captured.push_back(block);
  return true;
}

Result<bool> PinnedAllocator::record_stream(const void* memory, const DeviceStream& use) {
  PinnedBlock* block = nullptr;
  {
    MutexLock lock(mutex_);
    block = find(memory);
    if (block == nullptr || block->state != PinnedState::kAllocated) return false;
  }
  return record_stream(block, use);
}

// Allocates memory for the uses first, so that the call changes nothing if host memory is
// exhausted.
void PinnedAllocator::release_capture(CaptureId capture,
                                      std::span<const DeviceStream> launched_on) {
  PinnedBlockList pending;
  {
    MutexLock lock(mutex_);
    const auto captured = captured_.find(capture);
    if (captured != captured_.end()) {
      for (PinnedBlock* block : captured->second) {
        reserve_amortized(block->uses, block->uses.size() + launched_on.size());
      }
      for (PinnedBlock* block : captured->second) {
        std::erase(block->captures, capture);
        for (const DeviceStream& use : launched_on) add_once(block->uses, use);
        if (block->state != PinnedState::kInGraph || !block->captures.empty()) continue;
        stats_.graph_blocks.decrease(1);
        stats_.graph_bytes.decrease(static_cast<int64_t>(block->bytes()));
        if (finish_free(block)) pending.push_back(block);
      }
      captured_.erase(captured);
    }
  }
  add_pending(pending);
  if (poller_ == nullptr) collect_finished(IfBusy::kReturn);
  release_queued();
}

Status PinnedAllocator::begin_routing(PoolId pool, RouteFilter filter) {
  MutexLock lock(mutex_);
  return pools_.begin_routing(pool, std::move(filter));
}

Status PinnedAllocator::end_routing(PoolId pool) {
  Result<RouteFilter> ended = RouteFilter();  // destroyed without the lock: the filter is user code
  MutexLock lock(mutex_);
  ended = pools_.end_routing(pool);
  return ended.status();
}

Status PinnedAllocator::release_pool(PoolId pool) {
  MutexLock lock(mutex_);
  return pools_.release(pool);
}

Result<int> PinnedAllocator::pool_use_count(PoolId pool) const {
  MutexLock lock(mutex_);
  return pools_.use_count(pool);
}

}  // namespace ashlar
