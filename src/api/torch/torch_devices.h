// SPDX-License-Identifier: Apache-2.0
//
// The allocators behind PyTorch's device numbers: one for each, made when it is first asked for,
// and kept until the process ends, since PyTorch frees to the very end. Thread safe; one that is
// there is found without a lock.
#pragma once

#include <array>
#include <atomic>
#include <optional>
#include <string>

#include "api/c/handles.h"
#include "base/mutex.h"

namespace ashlar::torch {

class TorchDevices {
 public:
  static constexpr size_t kMaxDevices = 64;  // more than PyTorch takes

  static TorchDevices& of_process();

  // kInvalidArgument: some allocator is there already.
  Status configure(std::optional<std::string> backend, std::optional<std::string> options);
  // Throws what ashlar::Allocator throws, and InvalidArgument for a number that no device has.
  ashlar_allocator& allocator(int device) {
    const auto index = static_cast<size_t>(device);
    if (index < kMaxDevices) {
      // Acquire: what the thread that made it wrote into it is seen, too.
      ashlar_allocator* there = allocators_[index].load(std::memory_order_acquire);
      if (there != nullptr) return *there;
    }
    return make(device);
  }
  // The one that handed the memory out; null: none.
  ashlar_allocator* owner_of(const void* memory) const;

  template <typename Visit>
  void for_each(const Visit& visit) {
    for (std::atomic<ashlar_allocator*>& place : allocators_) {
      ashlar_allocator* there = place.load(std::memory_order_acquire);
      if (there != nullptr) visit(*there);
    }
  }

 private:
  ashlar_allocator& make(int device);

  // Without owners, on purpose: at exit, memory is left to the driver.
  std::array<std::atomic<ashlar_allocator*>, kMaxDevices> allocators_{};

  Mutex mutex_;
  bool is_used_ ASHLAR_GUARDED_BY(mutex_) = false;
  std::optional<std::string> backend_ ASHLAR_GUARDED_BY(mutex_);  // unset: the environment says
  std::optional<std::string> options_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::torch
