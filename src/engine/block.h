// SPDX-License-Identifier: Apache-2.0
//
// A contiguous range of device memory and its state: the part that all engines share. Each engine
// derives its own block type. "Active" means allocated or pending.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ashlar/status.h"
#include "ashlar/trace.h"
#include "ashlar/types.h"
#include "device/stream_use.h"

namespace ashlar {

enum class BlockState : uint8_t {
  kAllocated,  // owned by the caller
  kPending,    // freed by the caller, but work on another stream may still be using it
  kFree,       // available to its stream
  kQuick,      // free and unmerged, in a list of equal sizes (paged)
  kUnmapped,   // address space without memory
};

struct Block {
  BlockState state = BlockState::kFree;
  bool is_uncached = false;     // a segment of its own; returns to the device when freed
  bool in_block_table = false;  // in Engine::addresses()
  uint32_t pin_count = 0;       // while positive, a freed block stays pending
  uint32_t event_count = 0;     // pending blocks only: events that must complete first
  StackId stack{};              // of the allocating call; active blocks only
  DeviceAddress address;
  size_t bytes = 0;
  size_t requested_bytes = 0;  // as passed to allocate; 0 unless active
  StreamId stream;
  std::vector<DeviceStream> uses;  // other streams, declared by record_stream

  DeviceAddress end() const { return address + bytes; }
  bool is_allocated() const { return state == BlockState::kAllocated; }
  bool is_free() const { return state == BlockState::kFree || state == BlockState::kQuick; }
  bool is_mapped() const { return state != BlockState::kUnmapped; }
  bool is_active() const {
    return state == BlockState::kAllocated || state == BlockState::kPending;
  }
};

// The error for freeing `block` a second time.
//
Status double_free_error(const Block& block);

// Rules for checkpoints, shared by all engines that have them.
// kInvalidArgument: the block is pending or uncached, which a checkpoint cannot represent.
Status check_recordable(const Block& block, PoolId pool);
// kInvalidArgument: a restore cannot take the block from its owner, because it is not recordable,
// is pinned, or other streams use it.
Status check_restorable(const Block& block, PoolId pool);

}  // namespace ashlar
