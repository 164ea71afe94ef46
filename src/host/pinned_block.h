// SPDX-License-Identifier: Apache-2.0
//
// A block of pinned host memory: its origin, owner and pending uses. Blocks are never split or
// merged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ashlar/types.h"
#include "device/stream_use.h"

namespace ashlar {

class PinnedAllocator;
struct PinnedPool;

// Tells how memory was obtained, which determines how it is released.
enum class PinnedOrigin {
  kAllocated,   // Device::allocate_host
  kRegistered,  // allocated on the host heap, pages touched, then Device::register_host
  kReserved,    // part of the reserve segment; kept until the allocator is destroyed
};

struct PinnedMemory {
  std::byte* begin = nullptr;
  size_t bytes = 0;
  PinnedOrigin origin = PinnedOrigin::kAllocated;
};

enum class PinnedState {
  kAllocated,  // owned by the caller
  kPending,    // freed, but streams may still use it; in PinnedPending
  kInGraph,    // freed, but kept for the graphs of `captures`
  kFree,       // cached, or about to be released to the host
  kNone,       // an unused record without memory
};

// Guarded by the allocator's lock, except that PinnedPending owns `uses` and `event_count` while
// the block is pending.
struct PinnedBlock {
  PinnedState state = PinnedState::kNone;
  const PinnedAllocator* owner = nullptr;
  PinnedMemory memory;
  PinnedPool* pool = nullptr;       // the pool that caches the freed block; null: no memory
  size_t requested_bytes = 0;       // size passed to allocate; 0 unless the block is active
  std::vector<DeviceStream> uses;   // streams whose queued work needs the block
  std::vector<CaptureId> captures;  // captures that used the block and whose graphs may still run
  uint32_t event_count = 0;         // events that must complete before the block is free

  size_t bytes() const { return memory.bytes; }
  bool is_active() const {
    return state == PinnedState::kAllocated || state == PinnedState::kPending ||
           state == PinnedState::kInGraph;
  }
};

}  // namespace ashlar
