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
  // Returns the allocator that the memory is allocated from; null if there is none.
  ashlar_allocator* owner_of(const void* memory) const;

  template <typename Visit>
  void for_each(const Visit& visit) {
    for (std::atomic<ashlar_allocator*>& slot : allocators_) {
      ashlar_allocator* existing = slot.load(std::memory_order_acquire);
      if (existing != nullptr) visit(*existing);
    }
  }

 private:
  ashlar_allocator& make(int device);

  // Indexed by device number. Never destroyed: at exit, memory is left to the driver.
  std::array<std::atomic<ashlar_allocator*>, kMaxDevices> allocators_{};

  Mutex mutex_;
  bool is_used_ ASHLAR_GUARDED_BY(mutex_) = false;
  std::optional<std::string> backend_ ASHLAR_GUARDED_BY(mutex_);  // unset: from the environment
  std::optional<std::string> options_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::torch
