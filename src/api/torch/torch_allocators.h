// SPDX-License-Identifier: Apache-2.0
//
// The allocators behind PyTorch's device numbers: created on first use and kept until the process
// exits, because PyTorch frees memory until then. Thread safe; existing allocators are found
// without a lock.
#pragma once

#include <array>
#include <atomic>
#include <optional>
#include <string>

#include "api/c/handles.h"
#include "base/mutex.h"

namespace ashlar::torch {

class TorchAllocators {
 public:
  static constexpr size_t kMaxDevices = 64;  // device numbers must be below this
  // Pools that Ashlar's own interfaces create have greater ids, so that they never equal PyTorch's.
  // JavaScript represents all ids up to 2^53 exactly, as the viewers of snapshots require.
  static constexpr uint64_t kLastTorchPoolId = uint64_t{1} << 40;

  static TorchAllocators& instance();

  // Sets the back end and the options of all allocators. Values that are not set come from the
  // environment. kInvalidArgument: an allocator exists already.
  Status configure(std::optional<std::string> backend, std::optional<std::string> options);
  // Returns the allocator of a device, which is created on first use. Throws like the constructor
  // of Allocator, and InvalidArgument for an unknown device.
  ashlar_allocator& allocator(int device) {
    const auto index = static_cast<size_t>(device);
    if (index < kMaxDevices) {
      // Acquire: makes the constructor's writes visible.
      ashlar_allocator* existing = allocators_[index].load(std::memory_order_acquire);
      if (existing != nullptr) return *existing;
    }
    return make(device);
  }
  // Returns the allocator with a live allocation at this address; null if no allocator has one.
  ashlar_allocator* owner_of(const void* memory) const;

  template <typename Visit>
  void for_each(const Visit& visit) {
    for (size_t i = 0; i < count_.load(std::memory_order_acquire); ++i) visit(*created_[i]);
  }
  struct Found {
    ashlar_allocator* allocator = nullptr;
    Block* block = nullptr;
  };
  // Returns the block that starts at the address, with its allocator; {null, null} if no block
  // starts there. The block may have been freed.
  Found find(const void* memory) const {
    const size_t count = count_.load(std::memory_order_acquire);
    for (size_t i = 0; i < count; ++i) {
      Block* block = created_[i]->engine.addresses().find(DeviceAddress::of(memory));
      if (block != nullptr) return {created_[i], block};
    }
    return {};
  }

 private:
  ashlar_allocator& make(int device);

  // Indexed by device number. Never destroyed: at exit, memory is left to the driver.
  std::array<std::atomic<ashlar_allocator*>, kMaxDevices> allocators_{};
  // The same allocators, in the order of their creation, so that a search visits no empty slots. An
  // element is written once, before the release store of the count that includes it.
  std::array<ashlar_allocator*, kMaxDevices> created_{};
  std::atomic<size_t> count_{0};

  Mutex mutex_;
  bool is_used_ ASHLAR_GUARDED_BY(mutex_) = false;
  std::optional<std::string> backend_ ASHLAR_GUARDED_BY(mutex_);  // unset: from the environment
  std::optional<std::string> options_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::torch
