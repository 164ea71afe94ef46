// SPDX-License-Identifier: Apache-2.0
//
// A block: a contiguous range of device memory, in one of four states. "Active" is allocated or
// pending. What every engine has of it; each adds its own.
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
  kAllocated,  // handed to the caller
  kPending,    // freed by the caller, but work on another stream may still be using it
  kFree,       // in its pool, ready for the stream it belongs to
  kQuick,      // free, but not merged: waits for a request of about its size (paged)
  kUnmapped,   // addresses with no memory behind them at the moment
};

struct Block {
  BlockState state = BlockState::kFree;
  bool is_uncached = false;  // a segment of its own, which goes back to the device when it is free
  bool is_listed = false;    // in the engine's table of plain addresses
  uint32_t pin_count = 0;    // while not 0 it does not become free, whoever frees it
  uint32_t event_count = 0;  // events that must be done before it is free; only when pending
  StackId stack{};           // of whoever allocated it; none unless active
  DeviceAddress address;
  size_t bytes = 0;
  size_t requested_bytes = 0;  // what the caller asked for; 0 unless active
  StreamId stream;
  std::vector<StreamUse> uses;  // other streams, declared by record_stream

  DeviceAddress end() const { return address + bytes; }
  bool is_allocated() const { return state == BlockState::kAllocated; }
  bool is_free() const { return state == BlockState::kFree || state == BlockState::kQuick; }
  bool is_mapped() const { return state != BlockState::kUnmapped; }
  bool is_active() const {
    return state == BlockState::kAllocated || state == BlockState::kPending;
  }
};

// The answer to a second free.
Status freed_twice(const Block& block);

}  // namespace ashlar
