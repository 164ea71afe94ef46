// What an allocator did, act by act.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "ashlar/export.h"
#include "ashlar/types.h"

namespace ashlar {

enum class TraceAction {
  kAlloc,          // a block was handed out; bytes: as requested
  kFreeRequested,  // the caller freed it
  kFreeCompleted,  // it can be used again
  kSegmentAlloc,   // memory came from the device
  kSegmentFree,
  kSegmentMap,  // the same for a part of an expandable segment
  kSegmentUnmap,
  kSnapshot,  // a snapshot was taken; bytes: all active ones
  kOom,       // an allocation failed; bytes: as rounded, address: what the device had free
};

// "alloc", "free_requested", and so on: the names PyTorch writes.
ASHLAR_EXPORT std::string_view name(TraceAction action);

struct TraceEntry {
  TraceAction action = TraceAction::kAlloc;
  DeviceIndex device;
  DeviceAddress address;
  size_t bytes = 0;
  StreamId stream;
  PoolId pool;
};

// Sees every act, in order, after the allocator has unlocked: it may call the allocator.
using TraceTracker = std::function<void(const TraceEntry& entry)>;

}  // namespace ashlar
