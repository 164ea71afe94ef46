// SPDX-License-Identifier: Apache-2.0
//
// Allocation counters of the small or the large blocks of an arena. Sums over arenas are computed
// when statistics are read. The peaks of these sums must be noticed when they occur: PeakTracker
// gives each arena `PeakLevel`s, so that no sum reaches a new peak while every arena stays at or
// below its levels. A request that exceeds a level calls PeakTracker::update_peaks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ashlar/stats.h"

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

// The counters that change between resets of the totals. They are linear in their fields, so sums
// over counters can be updated by differences.
struct RunningCounters {
  Amount total_allocated;  // amount allocated since the totals were reset
  Amount total_freed;      // amount freed since the totals were reset
  Amount pending;          // freed by the caller, but not reusable yet

  // Returns the change of `Counters::allocated` since the totals were reset.
  Amount net() const {
    Amount sum = total_allocated;
    sum.subtract(total_freed);
    return sum;
  }
  // Whether the counters differ from an earlier state: each change of an amount changes a count.
  bool has_changed_since(const RunningCounters& before) const {
    return total_allocated.count != before.total_allocated.count ||
           total_freed.count != before.total_freed.count || pending.count != before.pending.count;
  }
  void subtract(const RunningCounters& other) {
    total_allocated.subtract(other.total_allocated);
    total_freed.subtract(other.total_freed);
    pending.subtract(other.pending);
  }
};

// Invariant: allocated() == total_allocated - total_freed + allocated_at_reset.
struct Counters : RunningCounters {
  Amount allocated_at_reset;
  Amount active_at_reset;

  const RunningCounters& running() const { return *this; }
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
  // Whether no block was allocated at the last reset of the totals or has been allocated since.
  bool is_unused() const { return total_allocated.count == 0 && allocated_at_reset.count == 0; }
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

// The headroom of one sum over arenas, and how arenas share it. Updates divide headroom in rounds:
// `begin`, `add` for each arena, then `share_for` each arena. A *resting* arena takes no part in
// rounds and keeps its share (peak_tracker.h).
struct HeadroomShares {
  PeakHeadroom kept{};  // headroom that resting arenas hold
  // The fields below are those of the last round.
  PeakHeadroom available{};            // headroom without `kept`
  PeakHeadroom wanted{};               // headroom wanted by all arenas together
  PeakHeadroom wanted_by_requester{};  // the part of `wanted` that the requester wants
  int64_t arena_count = 0;
  uint64_t round = 0;

  void begin(uint64_t new_round, const PeakHeadroom& headroom) {
    available = headroom;
    available.subtract(kept);
    wanted = wanted_by_requester = {};
    arena_count = 0;
    round = new_round;
  }
  void add(const PeakHeadroom& request, bool is_requester) {
    ++arena_count;
    wanted.add(request);
    if (is_requester) wanted_by_requester = request;
  }
  // If the headroom suffices for all requests, each arena gets its request and a share of the
  // remainder; half of the remainder goes to the requester, if any. Otherwise the requester is
  // served first.
  PeakHeadroom share_for(const PeakHeadroom& request, bool is_requester) const {
    const auto share = [&](int64_t PeakHeadroom::*part) {
      const int64_t spare = available.*part - wanted.*part;
      if (spare == 0) return request.*part;
      if (spare > 0) {
        const int64_t parts = arena_count == 1 ? 1 : is_requester ? 2 : 2 * (arena_count - 1);
        return request.*part + spare / parts;
      }
      if (is_requester || arena_count == 1) return std::min(request.*part, available.*part);
      return std::max<int64_t>(available.*part - wanted_by_requester.*part, 0) / arena_count;
    };
    return {share(&PeakHeadroom::count), share(&PeakHeadroom::bytes),
            share(&PeakHeadroom::requested_bytes)};
  }
  // Whether the arenas lack headroom that resting arenas hold.
  bool needs_kept() const {
    const auto is_needed = [&](int64_t PeakHeadroom::*part) {
      return kept.*part > 0 && available.*part < wanted.*part;
    };
    return is_needed(&PeakHeadroom::count) || is_needed(&PeakHeadroom::bytes) ||
           is_needed(&PeakHeadroom::requested_bytes);
  }
};

// The sums over the arenas of a pool or of a stream.
struct UsageSum {
  UsageStats stats{};
  HeadroomShares shares{};
};

}  // namespace ashlar::paged
