// SPDX-License-Identifier: Apache-2.0
//
// How much memory a device's program had at each step of its trace, and when it had the most. Bytes
// as requested: what blocks were made of them is only known to a replay. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/allocations.h"
#include "ashlar/snapshot.h"

namespace ashlar {

// requested_bytes() == live_bytes + pending_bytes.
struct TimelinePoint {
  size_t live_bytes = 0;     // in the hands of their owners
  size_t pending_bytes = 0;  // freed, but another stream may still be using them
  size_t reserved_bytes = 0;

  size_t requested_bytes() const { return live_bytes + pending_bytes; }
};

struct Peak {
  size_t bytes = 0;
  // The entry after which it was so; none: before the first one.
  std::optional<uint32_t> entry{};
  std::optional<int64_t> time_us{};
};

struct Timeline {
  TimelinePoint before{};               // before the first entry
  std::vector<TimelinePoint> points{};  // after each entry

  // The first entry that reached it. Of reserved memory, which often stays at its peak for long: of
  // the entries there, the first with the most requested bytes.
  Peak requested{};
  Peak reserved{};

  const TimelinePoint& at(std::optional<uint32_t> entry) const {
    return entry ? points[*entry] : before;
  }
  const TimelinePoint& at_end() const { return points.empty() ? before : points.back(); }
};

// `allocations` are those of the same snapshot and device.
Timeline make_timeline(const Snapshot& snapshot, DeviceIndex device,
                       const Allocations& allocations);

// The trace of a device; empty where it has none.
const std::vector<TraceEntry>& trace_of(const Snapshot& snapshot, DeviceIndex device);

// How an entry changes what is reserved, as a number that wraps.
size_t reserved_change(const TraceEntry& entry);
// What was reserved before the first entry: what is at the end, with every act undone. Files that
// hold only some kinds of entries, or no segments, may lead below zero; then there was at least so
// much, and no sum of changes from here on is negative.
size_t reserved_before(const Snapshot& snapshot, DeviceIndex device);
// The most that was reserved at any time.
size_t most_reserved(const Snapshot& snapshot, DeviceIndex device);

// Microseconds from the first entry to the last; none: the trace does not tell.
std::optional<double> duration_us(const std::vector<TraceEntry>& trace);

// --- for plots -------------------------------------------------------------------------------

enum class Quantity { kRequested, kReserved };

// What a quantity did in one of many equal parts of the trace.
struct RangeInColumn {
  size_t lowest = 0;
  size_t highest = 0;
  friend bool operator==(const RangeInColumn&, const RangeInColumn&) = default;
};

// No extreme is lost; a column without entries has the value that held through it.
// REQUIRES: column_count > 0.
std::vector<RangeInColumn> downsample(const Timeline& timeline, Quantity quantity,
                                      size_t column_count);
// The column in which an entry falls.
size_t column_of(const Timeline& timeline, std::optional<uint32_t> entry, size_t column_count);

// --- what is there at a moment ---------------------------------------------------------------

// Positions in `allocations.all` of what occupies memory after the entry (none: before the first),
// pending ones included.
std::vector<uint32_t> present_at(const Allocations& allocations, std::optional<uint32_t> entry);

struct StackUse {
  uint32_t stack = 0;  // as numbered by the caller
  size_t bytes = 0;
  size_t count = 0;
  friend bool operator==(const StackUse&, const StackUse&) = default;
};

// The most bytes first. `stack_numbers`: by StackId, as from StackIndex::add.
std::vector<StackUse> group_by_stack(const Allocations& allocations,
                                     const std::vector<uint32_t>& which,
                                     const std::vector<uint32_t>& stack_numbers);

}  // namespace ashlar
