// SPDX-License-Identifier: Apache-2.0
//
// Builds a snapshot with a trace for tests, entry by entry.
#pragma once

#include <optional>

#include "ashlar/snapshot.h"

namespace ashlar {

inline constexpr DeviceIndex kTraceDevice{0};
inline constexpr uint64_t kBase = 0x7f0000000000;              // address of the first segment
inline constexpr uint64_t kFirstChunkEnd = uint64_t{1} << 46;  // see InferredAllocations::end
inline constexpr SnapshotBlockState kLive = SnapshotBlockState::kAllocated;
inline constexpr SnapshotBlockState kCached = SnapshotBlockState::kInactive;

class TraceBuilder {
 public:
  TraceBuilder() { snapshot_.device_traces.resize(1); }

  TraceBuilder& add(TraceAction action, uint64_t address, size_t bytes, uint64_t stream = 0) {
    TraceEntry entry;
    entry.action = action;
    entry.address = DeviceAddress(address);
    entry.bytes = bytes;
    entry.stream = StreamId(stream);
    entry.time_us = ++time_us_;
    entry.has_pool = pool_.has_value();
    entry.pool = pool_.value_or(PoolId());
    snapshot_.device_traces[0].push_back(entry);
    return *this;
  }
  TraceBuilder& alloc(uint64_t address, size_t bytes, uint64_t stream = 0) {
    return add(TraceAction::kAlloc, address, bytes, stream);
  }
  // Adds the two entries of a free that completes immediately.
  TraceBuilder& free(uint64_t address, size_t bytes, uint64_t stream = 0) {
    add(TraceAction::kFreeRequested, address, bytes, stream);
    return add(TraceAction::kFreeCompleted, address, bytes, stream);
  }
  // Sets the pool of the entries that are added later. Entries before the first call have no pool.
  TraceBuilder& in_pool(PoolId pool) {
    pool_ = pool;
    return *this;
  }
  // Adds a final segment that consists of one block.
  TraceBuilder& ends_with(uint64_t address, size_t bytes, SnapshotBlockState state) {
    SnapshotSegment segment;
    segment.address = DeviceAddress(address);
    segment.total_bytes = bytes;
    segment.is_large = true;
    segment.pool = pool_.value_or(PoolId());
    segment.blocks = {{DeviceAddress(address), bytes, bytes, state, {}}};
    snapshot_.segments.push_back(segment);
    return *this;
  }
  // Sets the stack of the last entry.
  TraceBuilder& from(uint32_t stack) {
    snapshot_.device_traces[0].back().stack = StackId(stack);
    return *this;
  }

  Snapshot& snapshot() { return snapshot_; }

 private:
  Snapshot snapshot_;
  int64_t time_us_ = 0;
  std::optional<PoolId> pool_;
};

}  // namespace ashlar
