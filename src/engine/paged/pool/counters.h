// SPDX-License-Identifier: Apache-2.0
//
// Allocation counters of the small or the large blocks of an arena. Sums over arenas are computed
// when statistics are read. The peaks of these sums must be noticed when they occur: PeakTracker
// gives each arena `PeakLevel`s, so that no sum reaches a new peak while every arena stays at or
// below its levels. A request that exceeds a level calls PeakTracker::update_peaks.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ashlar::paged {

// A number of blocks, their size, and the size that was requested for them.
struct Amount {
  int64_t count = 0;
  int64_t bytes = 0;
  int64_t requested_bytes = 0;

  void add(const Amount& other) {
    count += other.count;
    bytes += other.bytes;
    requested_bytes += other.requested_bytes;
  }
  void subtract(const Amount& other) {
    count -= other.count;
    bytes -= other.bytes;
    requested_bytes -= other.requested_bytes;
  }
  friend bool operator==(const Amount&, const Amount&) = default;
};

// Counters are linear in their fields, so sums over counters can be updated by differences.
// Invariant: allocated() == total_allocated - total_freed + allocated_at_reset.
struct Counters {
  Amount total_allocated;  // amount allocated since the totals were reset
  Amount total_freed;      // amount freed since the totals were reset
  Amount pending;          // freed by the caller, but not reusable yet
  Amount allocated_at_reset;
  Amount active_at_reset;

  // Returns the change of allocated() since the totals were reset.
  Amount net() const {
    Amount sum = total_allocated;
    sum.subtract(total_freed);
    return sum;
  }
  Amount allocated() const {
    Amount sum = net();
    sum.add(allocated_at_reset);
    return sum;
  }
  Amount active() const {
    Amount sum = allocated();
    sum.add(pending);
    return sum;
  }
  void subtract(const Counters& other) {
    total_allocated.subtract(other.total_allocated);
    total_freed.subtract(other.total_freed);
    pending.subtract(other.pending);
    allocated_at_reset.subtract(other.allocated_at_reset);
    active_at_reset.subtract(other.active_at_reset);
  }
  friend bool operator==(const Counters&, const Counters&) = default;
  void reset_totals() {
    active_at_reset = active();
    allocated_at_reset = allocated();
    total_allocated = total_freed = {};
  }
};

// How far counters may rise above their current values. The fields may rise independently: a block
// with a larger request than its predecessor of the same size raises only `requested_bytes`.
struct PeakHeadroom {
  int64_t count = 0;
  int64_t bytes = 0;
  int64_t requested_bytes = 0;

  void add(const PeakHeadroom& other) {
    count += other.count;
    bytes += other.bytes;
    requested_bytes += other.requested_bytes;
  }
  void subtract(const PeakHeadroom& other) {
    count -= other.count;
    bytes -= other.bytes;
    requested_bytes -= other.requested_bytes;
  }
  friend bool operator==(const PeakHeadroom&, const PeakHeadroom&) = default;
  PeakHeadroom half() const { return {count / 2, bytes / 2, requested_bytes / 2}; }
  static PeakHeadroom min(const PeakHeadroom& a, const PeakHeadroom& b) {
    return {std::min(a.count, b.count), std::min(a.bytes, b.bytes),
            std::min(a.requested_bytes, b.requested_bytes)};
  }
};

// An upper bound on Counters::net(). By default the level is cleared: any value exceeds it.
struct PeakLevel {
  int64_t count = INT64_MIN;
  int64_t bytes = INT64_MIN;
  int64_t requested_bytes = INT64_MIN;

  static PeakLevel above(const Amount& net, const PeakHeadroom& headroom) {
    return {net.count + headroom.count, net.bytes + headroom.bytes,
            net.requested_bytes + headroom.requested_bytes};
  }
  static PeakLevel min(const PeakLevel& a, const PeakLevel& b) {
    return {std::min(a.count, b.count), std::min(a.bytes, b.bytes),
            std::min(a.requested_bytes, b.requested_bytes)};
  }

  bool allows(const Amount& net) const {
    return net.count <= count && net.bytes <= bytes && net.requested_bytes <= requested_bytes;
  }
  void raise_to(const Amount& net) {
    count = std::max(count, net.count);
    bytes = std::max(bytes, net.bytes);
    requested_bytes = std::max(requested_bytes, net.requested_bytes);
  }
  // Lowers the level by `freed`, so that a free adds no headroom. A cleared level stays cleared.
  void lower_by(const Amount& freed) {
    if (count == INT64_MIN) return;
    count -= freed.count;
    bytes -= freed.bytes;
    requested_bytes -= freed.requested_bytes;
  }
  PeakHeadroom headroom_above(const Amount& net) const {
    return {count - net.count, bytes - net.bytes, requested_bytes - net.requested_bytes};
  }
  // Returns the headroom that `net` needs to reach this level again: 0 for each field that is at or
  // above the level.
  PeakHeadroom shortfall(const Amount& net) const {
    return {std::max<int64_t>(count - net.count, 0), std::max<int64_t>(bytes - net.bytes, 0),
            std::max<int64_t>(requested_bytes - net.requested_bytes, 0)};
  }
};

}  // namespace ashlar::paged
