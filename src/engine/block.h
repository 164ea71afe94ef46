// A block: a contiguous range of a segment, in one of four states. "Active" is allocated or
// pending. A block belongs for ever to the stream of its segment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ashlar/stats.h"
#include "ashlar/trace.h"
#include "ashlar/types.h"
#include "base/intrusive_tree.h"
#include "device/stream_use.h"

namespace ashlar {

namespace classic {
class FreePool;
class ExpandableSegment;
}  // namespace classic

enum class BlockState {
  kAllocated,  // handed to the caller
  kPending,    // freed by the caller, but work on another stream may still be using it
  kFree,       // in its pool, ready for the stream it belongs to
  kUnmapped,   // addresses of an expandable segment with no memory behind them
};

// As a TreeNode it is in the index of its pool's free blocks, or of the unmapped ones.
struct Block : TreeNode {
  BlockState state = BlockState::kFree;
  DeviceAddress address;
  size_t bytes = 0;
  size_t requested_bytes = 0;  // what the caller asked for; 0 unless active
  StreamId stream;
  classic::FreePool* pool = nullptr;
  classic::ExpandableSegment* expandable = nullptr;  // null: part of a plain segment
  bool is_uncached = false;  // a segment of its own, which goes back to the device when it is free

  Block* previous = nullptr;  // neighbours in the same segment, by address
  Block* next = nullptr;

  uint32_t event_count = 0;  // events that must be done before it is free; only when pending
  uint32_t hold_count = 0;   // while not 0 it does not become free, whoever frees it
  uint64_t free_since = 0;   // the pool's search count when it became free; for collection by age
  uint64_t serial = 0;       // rises with every block made: an order for registrations; never 0
  UsageStats* stream_usage = nullptr;  // what its stream has; of the engine's statistics
  StackId stack{};                     // of whoever allocated it; none unless active
  StackId segment_stack{};             // of whoever made the device give its memory
  std::vector<StreamUse> uses;         // other streams, declared by record_stream

  DeviceAddress end() const { return address + bytes; }
  bool is_split() const { return previous != nullptr || next != nullptr; }
  bool is_allocated() const { return state == BlockState::kAllocated; }
  bool is_mapped() const { return state != BlockState::kUnmapped; }
  bool is_active() const {
    return state == BlockState::kAllocated || state == BlockState::kPending;
  }
};

}  // namespace ashlar
