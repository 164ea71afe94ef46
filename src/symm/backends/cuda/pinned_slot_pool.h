// SPDX-License-Identifier: Apache-2.0
//
// A pool of pinned host memory in slots of one size, for results of kernels. Allocating and freeing
// pinned memory may wait for all device work, including kernels that wait for this rank. The pool
// therefore allocates slabs of slots, the first one before the first call, and frees them only when
// the heap is destroyed. Thread safe.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "ashlar/device.h"
#include "base/mutex.h"
#include "symm/backends/cuda/kernels/arguments.h"

namespace ashlar::symm {

class PinnedSlotPool {
 public:
  // `device` must outlive this object.
  explicit PinnedSlotPool(Device& device) : device_(device) {}
  ~PinnedSlotPool();
  PinnedSlotPool(const PinnedSlotPool&) = delete;
  PinnedSlotPool& operator=(const PinnedSlotPool&) = delete;

  // A slot, whose destructor returns its memory to the pool. REQUIRES: when the slot is destroyed,
  // the device no longer uses the memory.
  template <typename T>
  class Slot {
   public:
    Slot() = default;
    Slot(PinnedSlotPool& pool, void* memory) : pool_(&pool), memory_(memory) {}
    ~Slot() {
      if (pool_ != nullptr) pool_->release(memory_);
    }
    Slot(Slot&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), memory_(other.memory_) {}
    Slot& operator=(Slot&&) = delete;

    T* operator->() const { return static_cast<T*>(memory_); }
    T& operator*() const { return *static_cast<T*>(memory_); }
    // Valid on the host and on the device.
    uint64_t address() const { return reinterpret_cast<uint64_t>(memory_); }
    // Leaks the slot until the pool is destroyed, because the device may still write to it.
    void abandon() { pool_ = nullptr; }

   private:
    PinnedSlotPool* pool_ = nullptr;  // null if moved from or abandoned
    void* memory_ = nullptr;
  };

  // Allocates another slab of slots.
  Status grow() ASHLAR_EXCLUDES(mutex_);
  Result<Slot<kernels::StatusBoard>> acquire_board();
  Result<Slot<kernels::CallRecord>> acquire_record();

 private:
  // Returns zeroed memory.
  Result<void*> acquire() ASHLAR_EXCLUDES(mutex_);
  void release(void* memory) ASHLAR_EXCLUDES(mutex_);

  Device& device_;
  Mutex mutex_;
  std::vector<void*> slabs_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<void*> idle_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
