// A trace written down by a test, entry by entry.
#pragma once

#include "ashlar/snapshot.h"

namespace ashlar {

class TraceBuilder {
 public:
  TraceBuilder() { snapshot_.device_traces.resize(1); }

  TraceBuilder& act(TraceAction action, uint64_t address, size_t bytes, uint64_t stream = 0) {
    TraceEntry entry;
    entry.action = action;
    entry.address = DeviceAddress(address);
    entry.bytes = bytes;
    entry.stream = StreamId(stream);
    entry.time_us = ++time_us_;
    entry.has_pool = false;
    snapshot_.device_traces[0].push_back(entry);
    return *this;
  }
  TraceBuilder& alloc(uint64_t address, size_t bytes, uint64_t stream = 0) {
    return act(TraceAction::kAlloc, address, bytes, stream);
  }
  // Requested and completed at once.
  TraceBuilder& free(uint64_t address, size_t bytes, uint64_t stream = 0) {
    act(TraceAction::kFreeRequested, address, bytes, stream);
    return act(TraceAction::kFreeCompleted, address, bytes, stream);
  }
  // The last entry's stack.
  TraceBuilder& from(uint32_t stack) {
    snapshot_.device_traces[0].back().stack = StackId(stack);
    return *this;
  }

  Snapshot& snapshot() { return snapshot_; }

 private:
  Snapshot snapshot_;
  int64_t time_us_ = 0;
};

}  // namespace ashlar
