// Pieces that fit either use.
#include "symm/cuda/pinned_pool.h"

#include <algorithm>
#include <cstring>

#include "device/relaxed_capture.h"

namespace ashlar::symm {
namespace {

constexpr size_t kPieceBytes = std::max(sizeof(kernels::Board), sizeof(kernels::Record));

}  // namespace

// A device that is lost keeps it.
PinnedPool::~PinnedPool() {
  MutexLock lock(mutex_);
  for (void* each : all_) (void)device_.free_host(each).ok();
}

Result<PinnedPool::Piece<kernels::Board>> PinnedPool::take_board() {
  const Result<void*> memory = take();
  if (!memory.ok()) return memory.status();
  return Piece<kernels::Board>(*this, *memory);
}

Result<PinnedPool::Piece<kernels::Record>> PinnedPool::take_record() {
  const Result<void*> memory = take();
  if (!memory.ok()) return memory.status();
  return Piece<kernels::Record>(*this, *memory);
}

Result<void*> PinnedPool::take() {
  void* memory = nullptr;
  {
    MutexLock lock(mutex_);
    all_.reserve(all_.size() + 1);
    idle_.reserve(all_.size() + 1);
    if (!idle_.empty()) {
      memory = idle_.back();
      idle_.pop_back();
    }
  }
  if (memory == nullptr) {
    const RelaxedCapture relaxed(device_);
    const Result<void*> made = device_.allocate_host(kPieceBytes);
    if (!made.ok()) return made.status();
    memory = *made;
    MutexLock lock(mutex_);
    all_.push_back(memory);
  }
  std::memset(memory, 0, kPieceBytes);
  return memory;
}

void PinnedPool::give_back(void* memory) {
  MutexLock lock(mutex_);
  idle_.push_back(memory);
}

}  // namespace ashlar::symm
