// SPDX-License-Identifier: Apache-2.0
//
// Pinned host memory for kernels of symmetric memory to say things in: pieces of one size, many to
// an allocation, used again and again. Getting such memory and freeing it may wait for all that the
// device does, ranks that wait for this one included, so there is some before the first call, and
// it is kept until nothing of the heap is left. Thread safe.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "ashlar/device.h"
#include "base/mutex.h"
#include "symm/backends/cuda/kernels/arguments.h"

namespace ashlar::symm {

class PinnedPool {
 public:
  // `device` outlives it.
  explicit PinnedPool(Device& device) : device_(device) {}
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  // Gives its memory back. Whoever got it is done with it by then.
  template <typename T>
  class Piece {
   public:
    Piece() = default;
    Piece(PinnedPool& pool, void* memory) : pool_(&pool), memory_(memory) {}
    ~Piece() {
      if (pool_ != nullptr) pool_->give_back(memory_);
    }
    Piece(Piece&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), memory_(other.memory_) {}
    Piece& operator=(Piece&&) = delete;

    T* operator->() const { return static_cast<T*>(memory_); }
    T& operator*() const { return *static_cast<T*>(memory_); }
    // For the host and for the device.
    uint64_t address() const { return reinterpret_cast<uint64_t>(memory_); }
    // It is not given back: who knows whether the device still writes to it.
    void abandon() { pool_ = nullptr; }

   private:
    PinnedPool* pool_ = nullptr;  // null: it is not given back
    void* memory_ = nullptr;
  };

  // More pieces.
  Status grow() ASHLAR_EXCLUDES(mutex_);
  Result<Piece<kernels::Board>> take_board();
  Result<Piece<kernels::Record>> take_record();

 private:
  // All zero.
  Result<void*> take() ASHLAR_EXCLUDES(mutex_);
  void give_back(void* memory) ASHLAR_EXCLUDES(mutex_);

  Device& device_;
  Mutex mutex_;
  std::vector<void*> slabs_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<void*> idle_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
