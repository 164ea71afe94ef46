// SPDX-License-Identifier: Apache-2.0
//
// Writes PyTorch's IPC handles. The handle of memory from cudaMalloc is a version byte, the byte
// 'c', and the driver's IPC handle.
#include "api/torch/torch_share.h"

#include <algorithm>
#include <utility>

#include "api/unwrap.h"

namespace ashlar::torch {

constinit std::atomic<size_t> TorchShares::total_count{0};

TorchShares::Handle TorchShares::share(DeviceAddress address) {
  const Block* block = block_at(engine_, address);
  const BlockMemory memory = engine_.block_memory(block);
  if (memory.origin == BlockMemory::Origin::kAllocation) {
    constexpr char kVersion = 1;  // the first version that has this format
    const AllocationHandle allocation =
        unwrap(engine_.device().share_allocation(memory.range.begin));
    std::string bytes(2 + allocation.size(), kVersion);
    bytes[1] = 'c';
    std::copy(allocation.begin(), allocation.end(), bytes.begin() + 2);
    return {std::move(bytes), static_cast<ptrdiff_t>(address - memory.range.begin)};
  }
  MutexLock lock(mutex_);
  Share& share = shares_[address];
  if (!share) {
    try {
      share = allocator_.sharing().share(address);
    } catch (...) {
      shares_.erase(address);
      throw;
    }
    total_count.fetch_add(1, std::memory_order_relaxed);
  }
  return {share.handle(), 0};
}

Share TorchShares::take(DeviceAddress address) {
  MutexLock lock(mutex_);
  const auto found = shares_.find(address);
  if (found == shares_.end()) return {};
  Share share = std::move(found->second);
  shares_.erase(found);
  total_count.fetch_sub(1, std::memory_order_relaxed);
  return share;
}

std::shared_ptr<void> TorchShares::open(std::string_view handle, StreamId stream) {
  auto buffer = std::make_shared<SharedBuffer>(allocator_.sharing().open(handle, stream));
  void* base = buffer->address().as();
  return {std::move(buffer), base};
}

}  // namespace ashlar::torch
