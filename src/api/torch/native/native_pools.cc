// SPDX-License-Identifier: Apache-2.0
//
// The pools of NativeAllocator, and their checkpoints.
#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>

#include "api/torch/native/native_allocator.h"

namespace ashlar::torch::native {
namespace {

PoolId to_pool_id(PoolIdPair pool) { return {pool.first, pool.second}; }

// Wraps a pool's allocator. `keep_alive` owns `source`; null: the caller keeps `source` alive.
SourceFunctions to_functions(GpuAllocator* source, std::shared_ptr<GpuAllocator> keep_alive) {
  SourceFunctions functions;
  functions.allocate = [source, keep_alive](size_t bytes, void* /*stream*/, void** memory) {
    try {
      *memory = source->raw_alloc(bytes);
      return ASHLAR_OK;
    } catch (...) {
      callback_failure() = std::current_exception();
      return ASHLAR_INVALID_ARGUMENT;
    }
  };
  functions.free = [source, keep_alive](void* memory) {
    try {
      source->raw_delete(memory);
    } catch (...) {
      warn_of_current_exception("a memory pool's allocator failed to free memory");
    }
  };
  return functions;
}

class CheckpointState final : public caching::AllocatorState {
 public:
  explicit CheckpointState(std::shared_ptr<const void> pool_state) : state(std::move(pool_state)) {}
  const std::shared_ptr<const void> state;
};

}  // namespace

// PyTorch does not say whether a capture is about to begin, but the filter shows this. The filter
// of a capture accepts only streams that are capturing, so it rejects the current stream before the
// capture begins. The filters of use_mem_pool accept the current stream.
void NativeAllocator::beginAllocateToPool(Device index, PoolIdPair pool,
                                          std::function<bool(GpuStreamHandle)> filter) {
  TORCH_CHECK(filter, "beginAllocateToPool: the filter is empty");
  const bool is_capture = !filter(current_stream(index).stream());
  check(device(index).bridge.begin_routing(
      to_pool_id(pool),
      [filter = std::move(filter)](void* stream) {
        return filter(static_cast<GpuStreamHandle>(stream));
      },
      is_capture));
}

void NativeAllocator::endAllocateToPool(Device index, PoolIdPair pool) {
  check(device(index).bridge.end_routing(to_pool_id(pool)));
}

void NativeAllocator::releasePool(Device index, PoolIdPair pool) {
  check(device(index).bridge.release_pool(to_pool_id(pool)));
}

int NativeAllocator::getPoolUseCount(Device index, PoolIdPair pool) {
  int count = 0;
  check(device(index).bridge.pool_use_count(to_pool_id(pool), &count));
  return count;
}

void NativeAllocator::createOrIncrefPool(Device index, PoolIdPair pool,
                                         std::shared_ptr<GpuAllocator> source) {
  GpuAllocator* const allocator = source.get();
  const SourceFunctions functions =
      allocator == nullptr ? SourceFunctions() : to_functions(allocator, std::move(source));
  check(device(index).bridge.create_or_retain_pool(to_pool_id(pool),
                                                   allocator == nullptr ? nullptr : &functions));
}

// Up to PyTorch 2.8, the caller keeps the allocator alive.
void NativeAllocator::createOrIncrefPool(Device index, PoolIdPair pool, GpuAllocator* source) {
  createOrIncrefPool(index, pool,
                     std::shared_ptr<GpuAllocator>(std::shared_ptr<GpuAllocator>(), source));
}

void NativeAllocator::setUseOnOOM(Device index, PoolIdPair pool, bool use_on_oom) {
  check(device(index).bridge.set_use_on_oom(to_pool_id(pool), use_on_oom));
}

void NativeAllocator::setNoSplit(Device index, PoolIdPair pool) {
  check(device(index).bridge.set_no_split(to_pool_id(pool)));
}

bool NativeAllocator::checkPoolLiveAllocations(Device index, PoolIdPair pool,
                                               const std::unordered_set<void*>& expected) {
  std::vector<void*> live;
  check(device(index).bridge.live_in_pool(to_pool_id(pool), live));
  return live.size() == expected.size() && std::all_of(live.begin(), live.end(), [&](void* memory) {
           return expected.count(memory) != 0;
         });
}

std::shared_ptr<caching::AllocatorState> NativeAllocator::getCheckpointState(Device index,
                                                                             PoolIdPair pool) {
  std::shared_ptr<const void> state;
  check(device(index).bridge.checkpoint(to_pool_id(pool), state));
  return std::make_shared<CheckpointState>(std::move(state));
}

caching::CheckpointDelta NativeAllocator::setCheckpointPoolState(
    Device index, std::shared_ptr<caching::AllocatorState> state) {
  const auto checkpoint = std::dynamic_pointer_cast<CheckpointState>(state);
  TORCH_CHECK(checkpoint != nullptr, "the state is not a checkpoint of this allocator");
  caching::CheckpointDelta delta;
  std::vector<void*> allocated;
  check(device(index).bridge.restore(checkpoint->state.get(), delta.ptrs_freed, allocated));
  for (void* memory : allocated) {
    delta.dataptrs_allocd.emplace_back(memory, memory, raw_deleter(),
                                       c10::Device(kDeviceType, index));
  }
  return delta;
}

}  // namespace ashlar::torch::native
