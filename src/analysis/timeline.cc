// SPDX-License-Identifier: Apache-2.0
//
// Makes the timeline in one forward pass over the entries. Sums are unsigned: they cannot wrap for
// snapshots from files (see snapshot_builder.cc), but may wrap for other snapshots with implausible
// sizes.
#include "analysis/timeline.h"

#include <algorithm>
#include <map>

#include "analysis/stack_index.h"

namespace ashlar {
namespace {

TimelinePoint before_first_entry(const Allocations& allocations);
void apply_entry(const Allocation& allocation, uint32_t entry, TimelinePoint& now);
void find_peaks(const std::vector<TraceEntry>& trace, Timeline& timeline);
void add_lower_bound(const std::vector<TraceEntry>& trace, const std::vector<FailedRequest>& failed,
                     Timeline& timeline);
std::optional<Growth> find_last_growth(const std::vector<TraceEntry>& trace,
                                       std::optional<uint32_t> peak);

}  // namespace

Timeline make_timeline(const Snapshot& snapshot, DeviceIndex device,
                       const Allocations& allocations) {
  const std::vector<TraceEntry>& trace = trace_of(snapshot, device);
  Timeline timeline;
  timeline.initial = before_first_entry(allocations);
  timeline.initial.reserved_bytes = initial_reserved_bytes(snapshot, device);
  timeline.points.reserve(trace.size());
  TimelinePoint now = timeline.initial;
  const auto add_points_until = [&](size_t end) {
    while (timeline.points.size() < end) {
      now.reserved_bytes += reserved_delta(trace[timeline.points.size()]);
      timeline.points.push_back(now);
    }
  };
  for_each_change(allocations, [&](uint32_t entry, const Allocation& allocation) {
    add_points_until(entry);
    apply_entry(allocation, entry, now);
  });
  add_points_until(trace.size());
  find_peaks(trace, timeline);
  add_lower_bound(trace, allocations.failed, timeline);
  timeline.last_growth = find_last_growth(trace, timeline.reserved_peak.entry);
  return timeline;
}

size_t needed_bytes(const Timeline& timeline, const FailedRequest& failed) {
  return timeline.points[failed.entry].requested_bytes() + failed.bytes;
}

const std::vector<TraceEntry>& trace_of(const Snapshot& snapshot, DeviceIndex device) {
  static const std::vector<TraceEntry> none;
  const bool has_trace = device.value() < snapshot.device_traces.size();
  return has_trace ? snapshot.device_traces[device.value()] : none;
}

size_t reserved_delta(const TraceEntry& entry) {
  switch (entry.action) {
    case TraceAction::kSegmentAlloc:
    case TraceAction::kSegmentMap: return entry.bytes;
    case TraceAction::kSegmentFree:
    case TraceAction::kSegmentUnmap: return -entry.bytes;
    default: return 0;
  }
}

size_t initial_reserved_bytes(const Snapshot& snapshot, DeviceIndex device) {
  size_t change = 0;
  int64_t lowest = 0;
  for (const TraceEntry& entry : trace_of(snapshot, device)) {
    change += reserved_delta(entry);
    lowest = std::min(lowest, static_cast<int64_t>(change));
  }
  // Extents, if recorded, include idle memory and all memory of expandable segments, which are
  // therefore not counted again.
  size_t extent_bytes = 0;
  for (const SnapshotExtent& extent : snapshot.extents) {
    if (extent.device == device) extent_bytes += extent.bytes;
  }
  size_t at_end = extent_bytes;
  for (const SnapshotSegment& segment : snapshot.segments) {
    const bool is_counted = extent_bytes > 0 && segment.is_expandable;
    if (segment.device == device && !is_counted) at_end += segment.reserved_bytes();
  }
  const size_t before = at_end - change;
  const size_t least = -static_cast<size_t>(lowest);
  return static_cast<int64_t>(before) < static_cast<int64_t>(least) ? least : before;
}

size_t peak_reserved_bytes_of(const Snapshot& snapshot, DeviceIndex device) {
  size_t held = initial_reserved_bytes(snapshot, device);
  size_t most = held;
  for (const TraceEntry& entry : trace_of(snapshot, device)) {
    held += reserved_delta(entry);
    most = std::max(most, held);
  }
  return most;
}

std::optional<double> duration_us(const std::vector<TraceEntry>& trace) {
  if (trace.empty() || !trace.front().has_time || !trace.back().has_time) return std::nullopt;
  const double us =
      static_cast<double>(trace.back().time_us) - static_cast<double>(trace.front().time_us);
  return us > 0 ? std::optional(us) : std::nullopt;
}

namespace {

TimelinePoint before_first_entry(const Allocations& allocations) {
  TimelinePoint before;
  for (const Allocation& allocation : allocations.all) {
    if (allocation.predates_trace()) before.live_bytes += allocation.bytes;
  }
  return before;
}

void apply_entry(const Allocation& allocation, uint32_t entry, TimelinePoint& now) {
  if (allocation.alloc_entry == entry) now.live_bytes += allocation.bytes;
  if (allocation.free_entry == entry) {
    now.live_bytes -= allocation.bytes;
    now.pending_bytes += allocation.bytes;
  }
  if (allocation.completed_entry == entry) now.pending_bytes -= allocation.bytes;
}

Peak initial_peak(size_t bytes) { return {.bytes = bytes}; }

Peak peak_at(const std::vector<TraceEntry>& trace, uint32_t entry, size_t bytes) {
  const TraceEntry& at = trace[entry];
  return {.bytes = bytes,
          .entry = entry,
          .time_us = at.has_time ? std::optional(at.time_us) : std::nullopt};
}

void find_peaks(const std::vector<TraceEntry>& trace, Timeline& timeline) {
  timeline.requested_peak = initial_peak(timeline.initial.requested_bytes());
  timeline.reserved_peak = initial_peak(timeline.initial.reserved_bytes);
  size_t requested_at_reserved = timeline.initial.requested_bytes();

  for (uint32_t i = 0; i < trace.size(); ++i) {
    const TimelinePoint& point = timeline.points[i];
    const size_t requested = point.requested_bytes();
    if (requested > timeline.requested_peak.bytes) {
      timeline.requested_peak = peak_at(trace, i, requested);
    }
    const bool is_higher = point.reserved_bytes > timeline.reserved_peak.bytes;
    const bool has_more_requested =
        point.reserved_bytes == timeline.reserved_peak.bytes && requested > requested_at_reserved;
    if (!is_higher && !has_more_requested) continue;
    timeline.reserved_peak = peak_at(trace, i, point.reserved_bytes);
    requested_at_reserved = requested;
  }
}

void add_lower_bound(const std::vector<TraceEntry>& trace, const std::vector<FailedRequest>& failed,
                     Timeline& timeline) {
  timeline.lower_bound = timeline.requested_peak;
  for (const FailedRequest& each : failed) {
    const size_t needed = needed_bytes(timeline, each);
    if (needed <= timeline.lower_bound.bytes) continue;
    timeline.lower_bound = peak_at(trace, each.entry, needed);
  }
}

bool obtains_memory(const TraceEntry& entry) {
  return entry.action == TraceAction::kSegmentAlloc || entry.action == TraceAction::kSegmentMap;
}

// A request that needs new memory records its segment entries first, then its alloc or oom entry.
std::optional<Growth> find_last_growth(const std::vector<TraceEntry>& trace,
                                       std::optional<uint32_t> peak) {
  if (!peak) return std::nullopt;
  uint32_t last = *peak;
  while (last > 0 && !obtains_memory(trace[last])) --last;
  if (!obtains_memory(trace[last])) return std::nullopt;
  Growth growth = {.entry = last};
  for (uint32_t i = last + 1; i > 0 && obtains_memory(trace[i - 1]); --i) {
    growth.bytes += trace[i - 1].bytes;
  }
  const uint32_t next = last + 1;
  const bool is_known = next < trace.size() && (trace[next].action == TraceAction::kAlloc ||
                                                trace[next].action == TraceAction::kOom);
  if (is_known) growth.request = next;
  return growth;
}

size_t value_of(const TimelinePoint& point, Quantity quantity) {
  switch (quantity) {
    case Quantity::kRequested: return point.requested_bytes();
    case Quantity::kReserved: return point.reserved_bytes;
  }
  return 0;
}

}  // namespace

std::vector<ColumnRange> downsample(const Timeline& timeline, Quantity quantity,
                                    size_t column_count) {
  std::vector<ColumnRange> columns(column_count);
  const size_t count = timeline.points.size();
  size_t last = value_of(timeline.initial, quantity);
  size_t next = 0;
  for (size_t column = 0; column < column_count; ++column) {
    ColumnRange range = {.lowest = SIZE_MAX, .highest = 0};
    for (; next < count && next * column_count / count == column; ++next) {
      last = value_of(timeline.points[next], quantity);
      range.lowest = std::min(range.lowest, last);
      range.highest = std::max(range.highest, last);
    }
    const bool is_empty = range.lowest == SIZE_MAX && range.highest == 0;
    columns[column] = is_empty ? ColumnRange{.lowest = last, .highest = last} : range;
  }
  // The state before the first entry has no column of its own, so it counts in the first column.
  const size_t before = value_of(timeline.initial, quantity);
  columns.front().lowest = std::min(columns.front().lowest, before);
  columns.front().highest = std::max(columns.front().highest, before);
  return columns;
}

size_t column_of(const Timeline& timeline, std::optional<uint32_t> entry, size_t column_count) {
  return entry ? size_t{*entry} * column_count / timeline.points.size() : 0;
}

std::vector<uint32_t> present_at(const Allocations& allocations, std::optional<uint32_t> entry) {
  std::vector<uint32_t> found;
  for (uint32_t id = 0; id < allocations.all.size(); ++id) {
    const Allocation& allocation = allocations.all[id];
    const bool is_made = allocation.predates_trace() || (entry && allocation.alloc_entry <= *entry);
    const bool is_freed = entry && allocation.completed_entry != Allocation::kNoEntry &&
                          allocation.completed_entry <= *entry;
    if (is_made && !is_freed) found.push_back(id);
  }
  return found;
}

std::vector<StackTotal> group_by_stack(const Allocations& allocations,
                                       const std::vector<uint32_t>& selected,
                                       const std::vector<uint32_t>& stack_numbers) {
  std::map<uint32_t, StackTotal> by_stack;
  for (uint32_t id : selected) {
    const Allocation& allocation = allocations.all[id];
    const uint32_t stack = stack_number(stack_numbers, allocation);
    StackTotal& use = by_stack[stack];
    use.stack = stack;
    use.bytes += allocation.bytes;
    ++use.count;
  }
  std::vector<StackTotal> uses;
  for (const auto& [stack, use] : by_stack) uses.push_back(use);
  std::stable_sort(uses.begin(), uses.end(), [](const StackTotal& left, const StackTotal& right) {
    return left.bytes > right.bytes;
  });
  return uses;
}

}  // namespace ashlar
