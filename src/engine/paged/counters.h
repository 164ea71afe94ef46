// SPDX-License-Identifier: Apache-2.0
//
// What an arena has handed out, counted where it happens. Sums over arenas are made when somebody
// reads them; only their peaks need care. No arena may go above its `Levels` without all counters
// being summed up, and levels are set so that as long as none does, no sum has a new peak. What its
// two heaps may do together is divided between them, and divided anew where one has not enough.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ashlar::paged {

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

struct Counters {
  Amount risen;   // all that was handed out since totals were reset
  Amount fallen;  // and all that was freed
  Amount pending;
  Amount allocated_at_reset;
  Amount active_at_reset;

  // What is handed out, beside what was when totals were reset.
  Amount net() const {
    Amount sum = risen;
    sum.subtract(fallen);
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
  void reset_totals() {
    active_at_reset = active();
    allocated_at_reset = allocated();
    risen = fallen = {};
  }
};

// How far the `net` of counters may rise unseen. At first not at all. Each number for itself: a
// block that asks for more than the one before it, of the same size, raises what is requested
// alone.
struct Levels {
  int64_t count = INT64_MIN;
  int64_t bytes = INT64_MIN;
  int64_t requested_bytes = INT64_MIN;

  bool allow(const Amount& net) const {
    return net.count <= count && net.bytes <= bytes && net.requested_bytes <= requested_bytes;
  }
  // From what there is now on.
  static Levels above(const Amount& net, const Levels& room) {
    return {net.count + room.count, net.bytes + room.bytes,
            net.requested_bytes + room.requested_bytes};
  }
  Levels room_above(const Amount& net) const {
    return {count - net.count, bytes - net.bytes, requested_bytes - net.requested_bytes};
  }
  // What is missing from there to here.
  Levels need_above(const Amount& net) const {
    return {std::max<int64_t>(count - net.count, 0), std::max<int64_t>(bytes - net.bytes, 0),
            std::max<int64_t>(requested_bytes - net.requested_bytes, 0)};
  }
  static Levels higher(const Levels& level, const Amount& net) {
    return {std::max(level.count, net.count), std::max(level.bytes, net.bytes),
            std::max(level.requested_bytes, net.requested_bytes)};
  }
  // As far above what there is when that much of it is freed. What allows nothing stays so.
  Levels below(const Amount& freed) const {
    if (count == INT64_MIN) return *this;
    return {count - freed.count, bytes - freed.bytes, requested_bytes - freed.requested_bytes};
  }
  Levels half() const { return {count / 2, bytes / 2, requested_bytes / 2}; }
  static Levels lower(const Levels& a, const Levels& b) {
    return {std::min(a.count, b.count), std::min(a.bytes, b.bytes),
            std::min(a.requested_bytes, b.requested_bytes)};
  }
};

}  // namespace ashlar::paged
