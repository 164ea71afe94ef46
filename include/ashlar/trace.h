// SPDX-License-Identifier: Apache-2.0
//
// What an allocator did, act by act.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "ashlar/export.h"
#include "ashlar/types.h"

namespace ashlar {

enum class TraceAction : uint8_t {
  kAlloc,          // a block was handed out; bytes: as requested
  kFreeRequested,  // the caller freed it
  kFreeCompleted,  // it can be used again
  kSegmentAlloc,   // memory came from the device
  kSegmentFree,
  kSegmentMap,  // the same for a part of an expandable segment
  kSegmentUnmap,
  kSnapshot,  // a snapshot was taken; bytes: all active ones
  kOom,       // an allocation failed; bytes: as rounded, address: what the device had free
  kAnnotate,  // the user said something about a live block; user_metadata: the text
};

// Positions in the tables of a snapshot.
using StackId = SmallId<struct StackTag>;
using StringId = SmallId<struct StringTag>;

// "alloc", "free_requested", and so on: the names PyTorch writes.
ASHLAR_EXPORT std::string_view name(TraceAction action);

// Stacks and texts are positions in tables (snapshot.h); 0 stands for none. Trackers see 0: they
// are filled in where history is recorded.
struct TraceEntry {
  TraceAction action = TraceAction::kAlloc;
  // False: read from a file that does not tell; the field itself then has its default.
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
  int64_t time_us = 0;  // since 1970
  friend bool operator==(const TraceEntry&, const TraceEntry&) = default;
};

// Sees every act, in order, after the allocator has unlocked: it may call the allocator. One thread
// at a time tells the trackers, also of the acts of others: the call that caused an entry may have
// returned on its own thread before the entry is told.
using TraceTracker = std::function<void(const TraceEntry& entry)>;

}  // namespace ashlar
