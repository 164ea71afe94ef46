// SPDX-License-Identifier: Apache-2.0
//
// The memory use of a device after each entry of its trace, and the peaks. Sizes of allocations are
// requested sizes; block sizes are known only after a replay. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/allocations.h"
#include "ashlar/snapshot.h"

namespace ashlar {

// The memory use at one moment. requested_bytes() == live_bytes + pending_bytes.
struct TimelinePoint {
  size_t live_bytes = 0;     // allocated and not freed
  size_t pending_bytes = 0;  // freed, but another stream may still use them
  size_t reserved_bytes = 0;

  size_t requested_bytes() const { return live_bytes + pending_bytes; }
};

struct Peak {
  size_t bytes = 0;
  // The entry after which the peak was reached; unset: before the first entry.
  std::optional<uint32_t> entry{};
  std::optional<int64_t> time_us{};
};

// An increase of the reserved memory.
struct Growth {
  uint32_t entry = 0;  // the last of its segment entries
  size_t bytes = 0;
  std::optional<uint32_t> request{};  // the alloc or oom entry that needed the memory
};

struct Timeline {
  TimelinePoint initial{};              // state before the first entry
  std::vector<TimelinePoint> points{};  // state after each entry

  Peak requested_peak{};  // `entry` is the first entry at the peak
  // The moment that all reports explain. Reserved memory often stays at its peak for many entries;
  // `entry` is the first of these entries at which the requested bytes are highest.
  Peak reserved_peak{};
  // The least memory with which any allocator can serve all requests of the run: the largest sum of
  // requests that are in use at the same time. A request that failed counts at its oom entry, so
  // this is more than requested_peak if the run needed more than it was given.
  Peak lower_bound{};
  // The last increase up to reserved_peak, which raised the reserved memory to its peak. Unset:
  // reserved memory was at its peak before the first entry.
  std::optional<Growth> last_growth{};

  const TimelinePoint& at(std::optional<uint32_t> entry) const {
    return entry ? points[*entry] : initial;
  }
  const TimelinePoint& last() const { return points.empty() ? initial : points.back(); }
};

// REQUIRES: `allocations` belong to this snapshot and device.
Timeline make_timeline(const Snapshot& snapshot, DeviceIndex device,
                       const Allocations& allocations);

// Returns the memory that the run needed at a failed request: what was in use, and the request.
size_t needed_bytes(const Timeline& timeline, const FailedRequest& failed);

// Returns the trace of a device; empty if it has none.
const std::vector<TraceEntry>& trace_of(const Snapshot& snapshot, DeviceIndex device);

// Returns the change in reserved bytes that an entry makes, modulo 2^64.
size_t reserved_delta(const TraceEntry& entry);
// Returns the reserved bytes before the first entry: the bytes at the end minus all changes. If the
// file is incomplete and this or a later value would be negative, returns the smallest value for
// which no value is negative.
size_t initial_reserved_bytes(const Snapshot& snapshot, DeviceIndex device);
// Returns the maximum of the reserved bytes over the whole trace.
size_t peak_reserved_bytes_of(const Snapshot& snapshot, DeviceIndex device);

// Returns the microseconds from the first entry to the last; unset if one of the two has no time,
// or if the last entry is not later than the first.
std::optional<double> duration_us(const std::vector<TraceEntry>& trace);

// Plots

enum class Quantity { kRequested, kReserved };

// The range of a quantity within one column of a plot, which is a part of the trace.
struct ColumnRange {
  size_t lowest = 0;
  size_t highest = 0;
  friend bool operator==(const ColumnRange&, const ColumnRange&) = default;
};

// Divides the trace into columns. No extreme value is lost; a column without entries has the value
// of the entry before it.
// REQUIRES: column_count > 0.
std::vector<ColumnRange> downsample(const Timeline& timeline, Quantity quantity,
                                    size_t column_count);
// Returns the column in which an entry falls.
size_t column_of(const Timeline& timeline, std::optional<uint32_t> entry, size_t column_count);

// Allocations at a moment

// Returns the indexes into `allocations.all` of the allocations that occupy memory after the entry,
// including pending frees. If `entry` is unset, the moment is before the first entry.
std::vector<uint32_t> present_at(const Allocations& allocations, std::optional<uint32_t> entry);

struct StackTotal {
  uint32_t stack = 0;  // number from `stack_numbers`
  size_t bytes = 0;
  size_t count = 0;
  friend bool operator==(const StackTotal&, const StackTotal&) = default;
};

// Sums up the bytes of the selected allocations by stack, largest sum first. `stack_numbers` is the
// result of StackIndex::add(). Allocations without a stack that predate the trace count as
// StackIndex::kBeforeRecording.
std::vector<StackTotal> group_by_stack(const Allocations& allocations,
                                       const std::vector<uint32_t>& selected,
                                       const std::vector<uint32_t>& stack_numbers);

}  // namespace ashlar
