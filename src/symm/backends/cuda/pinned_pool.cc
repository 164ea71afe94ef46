// SPDX-License-Identifier: Apache-2.0
//
// Pieces that fit either use.
#include "symm/backends/cuda/pinned_pool.h"

#include <algorithm>
#include <cstring>

#include "base/align.h"
#include "device/relaxed_capture.h"

namespace ashlar::symm {
namespace {

constexpr size_t kPieceBytes =
    align_up(std::max(sizeof(kernels::Board), sizeof(kernels::Record)), size_t{128});
constexpr size_t kPiecesOfASlab = 64;

}  // namespace

// A device that is lost keeps it.
PinnedPool::~PinnedPool() {
  MutexLock lock(mutex_);
  for (void* each : slabs_) (void)device_.free_host(each).ok();
}

Status PinnedPool::grow() {
  const RelaxedCapture relaxed(device_);
  const Result<void*> slab = device_.allocate_host(kPiecesOfASlab * kPieceBytes);
  if (!slab.ok()) return slab.status();
  MutexLock lock(mutex_);
  slabs_.push_back(*slab);
  idle_.reserve(slabs_.size() * kPiecesOfASlab);  // giving back needs no more
  for (size_t i = 0; i < kPiecesOfASlab; ++i) {
    idle_.push_back(static_cast<std::byte*>(*slab) + i * kPieceBytes);
  }
  return {};
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
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (!idle_.empty()) {
        void* memory = idle_.back();
        idle_.pop_back();
        std::memset(memory, 0, kPieceBytes);
        return memory;
      }
    }
    if (Status grown = grow(); !grown.ok()) return grown;
  }
}

void PinnedPool::give_back(void* memory) {
  MutexLock lock(mutex_);
  idle_.push_back(memory);
}

}  // namespace ashlar::symm
