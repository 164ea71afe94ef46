// Pinned host memory for kernels of symmetric memory to say things in: pieces of one size, used
// again and again. Freeing such memory may wait for all that the device does, ranks that wait for
// this one included, so it is kept until nothing of the heap is left. Thread safe.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "ashlar/device.h"
#include "base/mutex.h"
#include "symm/kernels/arguments.h"

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
      if (memory_ != nullptr) pool_->give_back(memory_);
    }
    Piece(Piece&& other) noexcept
        : pool_(other.pool_), memory_(std::exchange(other.memory_, nullptr)) {}
    Piece& operator=(Piece&&) = delete;

    T* operator->() const { return static_cast<T*>(memory_); }
    T& operator*() const { return *static_cast<T*>(memory_); }
    // For the host and for the device.
    uint64_t address() const { return reinterpret_cast<uint64_t>(memory_); }
    // It is not given back: who knows whether the device still writes to it.
    void abandon() { memory_ = nullptr; }

   private:
    PinnedPool* pool_ = nullptr;
    void* memory_ = nullptr;
  };

  Result<Piece<kernels::Board>> take_board();
  Result<Piece<kernels::Record>> take_record();

 private:
  // All zero.
  Result<void*> take() ASHLAR_EXCLUDES(mutex_);
  void give_back(void* memory) ASHLAR_EXCLUDES(mutex_);

  Device& device_;
  Mutex mutex_;
  std::vector<void*> all_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<void*> idle_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
