// SPDX-License-Identifier: Apache-2.0
//
// Allocates slots from slabs. Every slot is large enough for a StatusBoard and for a CallRecord.
#include "symm/backends/cuda/pinned_slot_pool.h"

#include <algorithm>
#include <cstring>

#include "base/align.h"
#include "device/relaxed_capture.h"

namespace ashlar::symm {
namespace {

constexpr size_t kSlotBytes =
    align_up(std::max(sizeof(kernels::StatusBoard), sizeof(kernels::CallRecord)), size_t{128});
constexpr size_t kSlotsPerSlab = 64;

}  // namespace

// Ignores errors, which a destructor cannot report. They are expected only if the device is lost.
PinnedSlotPool::~PinnedSlotPool() {
  MutexLock lock(mutex_);
  for (void* each : slabs_) (void)device_.free_host(each).ok();
}

Status PinnedSlotPool::grow() {
  const RelaxedCapture relaxed(device_);
  const Result<void*> slab = device_.allocate_host(kSlotsPerSlab * kSlotBytes);
  if (!slab.ok()) return slab.status();
  MutexLock lock(mutex_);
  slabs_.push_back(*slab);
  idle_.reserve(slabs_.size() * kSlotsPerSlab);  // releasing a slot then never allocates
  for (size_t i = 0; i < kSlotsPerSlab; ++i) {
    idle_.push_back(static_cast<std::byte*>(*slab) + i * kSlotBytes);
  }
  return {};
}

Result<PinnedSlotPool::Slot<kernels::StatusBoard>> PinnedSlotPool::acquire_board() {
  const Result<void*> memory = acquire();
  if (!memory.ok()) return memory.status();
  return Slot<kernels::StatusBoard>(*this, *memory);
}

Result<PinnedSlotPool::Slot<kernels::CallRecord>> PinnedSlotPool::acquire_record() {
  const Result<void*> memory = acquire();
  if (!memory.ok()) return memory.status();
  return Slot<kernels::CallRecord>(*this, *memory);
}

Result<void*> PinnedSlotPool::acquire() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (!idle_.empty()) {
        void* memory = idle_.back();
        idle_.pop_back();
        std::memset(memory, 0, kSlotBytes);
        return memory;
      }
    }
    if (Status grown = grow(); !grown.ok()) return grown;
  }
}

void PinnedSlotPool::release(void* memory) {
  MutexLock lock(mutex_);
  idle_.push_back(memory);
}

}  // namespace ashlar::symm
