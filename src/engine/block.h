// SPDX-License-Identifier: Apache-2.0
//
// The base of every engine's block type: a contiguous range of device memory and its state. A block
// is active while it is allocated or pending.
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
  kQuick,      // free and not merged with its neighbours, on a quick list (paged engine only)
  kUnmapped,   // address space without memory
};

// Identifies the type that is derived from Block: ClassicBlock or PagedBlock.
enum class BlockType : uint8_t { kClassic, kPaged };

struct Block {
  BlockState state = BlockState::kFree;
  bool is_uncached = false;     // is a whole segment, which is released when the block is freed
  bool in_block_table = false;  // whether Engine::addresses() contains the block
  BlockType type = BlockType::kClassic;
  uint32_t pin_count = 0;    // while positive, a freed block stays pending
  uint32_t event_count = 0;  // number of events that must complete before a pending block is free
  StackId stack{};           // call stack of the allocation; valid while active
  DeviceAddress address;
  size_t bytes = 0;
  size_t requested_bytes = 0;  // size passed to allocate; valid while active
  StreamId stream;
  // Other streams that use the block, declared by record_stream. A stream is removed once an event
  // marks the end of its use, or once no event is needed.
  std::vector<DeviceStream> uses;

  DeviceAddress end() const { return address + bytes; }
  bool is_allocated() const { return state == BlockState::kAllocated; }
  bool is_free() const { return state == BlockState::kFree || state == BlockState::kQuick; }
  bool is_mapped() const { return state != BlockState::kUnmapped; }
  bool is_active() const {
    return state == BlockState::kAllocated || state == BlockState::kPending;
  }
};

// Returns the error for freeing `block` a second time.
Status double_free_error(const Block& block);
// Returns the error for passing `block` to an engine that does not own it.
Status foreign_block_error(const Block& block);

// Checks that a checkpoint can contain the block. kInvalidArgument: the block is pending or
// uncached.
Status check_recordable(const Block& block, PoolId pool);
// Checks that a restore may free the block. kInvalidArgument: the block is not recordable, is
// pinned, or other streams use it.
Status check_restorable(const Block& block, PoolId pool);

}  // namespace ashlar
