// SPDX-License-Identifier: Apache-2.0
//
// A block of pinned host memory: where its bytes came from, who has it, and what it waits for.
// Blocks are never split or merged, so a block and its memory are one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ashlar/types.h"
#include "device/stream_use.h"

namespace ashlar {

class PinnedAllocator;
struct PinnedPool;

// How memory was obtained decides how it is given back.
enum class PinnedOrigin {
  kAllocated,   // allocate_host
  kRegistered,  // from the host's heap, touched, then register_host
  kReserved,    // a part of the segment taken at the start; stays until the allocator goes
};

struct PinnedMemory {
  std::byte* begin = nullptr;
  size_t bytes = 0;
  PinnedOrigin origin = PinnedOrigin::kAllocated;
};

enum class PinnedState {
  kAllocated,  // handed to the caller
  kPending,    // freed by the caller; streams may still be using it, and PinnedPending has it
  kInGraph,    // freed by the caller; kept for the graphs of `captures`
  kFree,       // in the cache, or on its way from there to the host
  kNone,       // there is no memory; the record waits to describe some
};

// The allocator's lock guards everything, with one exception: while a block is pending, `uses` and
// `event_count` are PinnedPending's.
struct PinnedBlock {
  PinnedState state = PinnedState::kNone;
  const PinnedAllocator* owner = nullptr;
  PinnedMemory memory;
  PinnedPool* pool = nullptr;       // whose cache it returns to; null without memory
  size_t requested_bytes = 0;       // what the caller asked for; 0 unless active
  std::vector<StreamUse> uses;      // streams whose queued work needs the block
  std::vector<CaptureId> captures;  // captures in which it was used, and whose graphs may run
  uint32_t event_count = 0;         // events that must be done before it is free

  size_t bytes() const { return memory.bytes; }
  bool is_active() const {
    return state == PinnedState::kAllocated || state == PinnedState::kPending ||
           state == PinnedState::kInGraph;
  }
};

}  // namespace ashlar
