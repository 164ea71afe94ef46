// SPDX-License-Identifier: Apache-2.0
//
// One entry per operation of an allocator, as recorded in its history and passed to trackers.
//
// Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "ashlar/export.h"
#include "ashlar/types.h"

namespace ashlar {

enum class TraceAction : uint8_t {
  kAlloc,          // a block was allocated; bytes: the requested size
  kFreeRequested,  // the caller freed a block
  kFreeCompleted,  // a freed block can be reused
  kSegmentAlloc,   // a segment was obtained from the device
  kSegmentFree,    // a segment was returned to the device
  kSegmentMap,     // part of an expandable segment was mapped
  kSegmentUnmap,   // part of an expandable segment was unmapped
  kSnapshot,       // a snapshot was taken; bytes: the active bytes
  kOom,            // an allocation failed; bytes: rounded size, address: the device's free bytes
  kAnnotate,       // the user annotated a live block; user_metadata: the text
};

using StackId = SmallId<struct StackTag>;    // index into SnapshotTables::stacks
using StringId = SmallId<struct StringTag>;  // index into SnapshotTables::strings

// Returns PyTorch's name: "alloc", "free_requested", and so on.
ASHLAR_EXPORT std::string_view name(TraceAction action);

// One recorded operation. `stack`, `compile_context` and `user_metadata` are indexes into
// SnapshotTables; 0 means none. The indexes are valid only in the entries of a snapshot; trackers
// must ignore them.
struct TraceEntry {
  TraceAction action = TraceAction::kAlloc;
  // A flag is false if the entry was read from a file without the field that the flag names. The
  // field then has its default value.
  bool has_pool = true;
  bool has_time = true;
  bool has_compile_context = true;
  bool has_user_metadata = true;
  StackId stack{};
  StringId compile_context{};
  StringId user_metadata{};
  DeviceIndex device{};
  DeviceAddress address{};
  size_t bytes = 0;
  StreamId stream{};
  PoolId pool{};
  int64_t time_us = 0;  // since the Unix epoch
  friend bool operator==(const TraceEntry&, const TraceEntry&) = default;
};

// Receives every operation except annotations, in order. If host memory is exhausted, the library
// omits entries. The tracker is called after the allocator has released its lock, so it may call
// the allocator. It must not throw. Calls are serialized: one thread at a time delivers entries,
// including entries of other threads, so the call that caused an entry may return before the entry
// is delivered.
using TraceTracker = std::function<void(const TraceEntry& entry)>;

}  // namespace ashlar
