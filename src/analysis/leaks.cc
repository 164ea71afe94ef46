// SPDX-License-Identifier: Apache-2.0
//
// Groups the allocations, then examines the live bytes of each group over the trace.
#include "analysis/leaks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "analysis/allocations.h"

namespace ashlar {
namespace {

constexpr size_t kLeakPollPeriod = 4096;  // allocations or groups between polls of keep_going

// Returns whether the search was cancelled. Polls keep_going once per period.
bool is_cancelled(const LeakOptions& options, size_t done_count) {
  return options.keep_going && done_count % kLeakPollPeriod == 0 && !options.keep_going();
}

// A change of a group's live bytes. Decreases are stored modulo 2^64.
struct Change {
  uint32_t entry = 0;
  size_t bytes = 0;
};

// The live bytes of a group over the trace.
struct GroupHistory {
  size_t before_bytes = 0;  // live bytes before the first entry
  size_t live_bytes = 0;    // live bytes at the end of the trace
  size_t live_count = 0;
  std::vector<Change> changes{};  // sorted by entry
};

class LeakDetector {
 public:
  LeakDetector(const std::vector<TraceEntry>& trace, const LeakOptions& options)
      : trace_(trace), options_(options) {}

  // Returns nullopt if the group does not leak.
  std::optional<Leak> examine(const GroupHistory& history, size_t min_growth_bytes) const;

 private:
  std::vector<size_t> floors_of(const GroupHistory& history) const;
  static size_t rising_parts(const std::vector<size_t>& floors);
  uint32_t last_entry(size_t part) const;

  const std::vector<TraceEntry>& trace_;
  const LeakOptions& options_;
};

std::map<LeakGroup, GroupHistory> group_histories(const Allocations& allocations,
                                                  const std::vector<uint32_t>& stack_numbers,
                                                  bool has_stacks, const LeakOptions& options);
size_t peak_live_bytes(const Allocations& allocations);

}  // namespace

LeakReport find_leaks(const std::vector<TraceEntry>& trace, const Allocations& allocations,
                      const std::vector<uint32_t>& stack_numbers, const LeakOptions& options) {
  LeakReport leaks;
  leaks.has_stacks = std::any_of(
      allocations.all.begin(), allocations.all.end(), [&](const Allocation& allocation) {
        return stack_number(stack_numbers, allocation.stack) != StackIndex::kNoStack;
      });
  const std::map<LeakGroup, GroupHistory> histories =
      group_histories(allocations, stack_numbers, leaks.has_stacks, options);
  leaks.group_count = histories.size();
  if (trace.size() < options.part_count) return leaks;

  const auto min_growth_bytes = static_cast<size_t>(
      std::ceil(options.min_growth_fraction * static_cast<double>(peak_live_bytes(allocations))));
  const LeakDetector detector(trace, options);
  size_t done_count = 0;
  for (const auto& [group, history] : histories) {
    if (is_cancelled(options, done_count++)) break;
    std::optional<Leak> leak = detector.examine(history, std::max<size_t>(min_growth_bytes, 1));
    if (!leak) continue;
    leak->group = group;
    leaks.leaks.push_back(*std::move(leak));
  }
  std::stable_sort(leaks.leaks.begin(), leaks.leaks.end(), [](const Leak& left, const Leak& right) {
    return left.growth_bytes > right.growth_bytes;
  });
  return leaks;
}

namespace {

std::map<LeakGroup, GroupHistory> group_histories(const Allocations& allocations,
                                                  const std::vector<uint32_t>& stack_numbers,
                                                  bool has_stacks, const LeakOptions& options) {
  std::map<LeakGroup, GroupHistory> histories;
  size_t done_count = 0;
  for (const Allocation& allocation : allocations.all) {
    if (is_cancelled(options, done_count++)) return {};
    LeakGroup group;
    if (has_stacks) {
      group.stack = stack_number(stack_numbers, allocation.stack);
    } else {
      group.size_class = size_class_of(allocation.bytes);
      group.stream = allocation.stream;
    }
    GroupHistory& history = histories[group];
    if (allocation.predates_trace()) {
      history.before_bytes += allocation.bytes;
    } else {
      history.changes.push_back({allocation.alloc_entry, allocation.bytes});
    }
    if (allocation.free_entry == Allocation::kNoEntry) {
      history.live_bytes += allocation.bytes;
      ++history.live_count;
    } else {
      history.changes.push_back({allocation.free_entry, -allocation.bytes});
    }
  }
  for (auto& [group, history] : histories) {
    std::sort(history.changes.begin(), history.changes.end(),
              [](const Change& left, const Change& right) { return left.entry < right.entry; });
  }
  return histories;
}

size_t peak_live_bytes(const Allocations& allocations) {
  size_t now = 0;
  for (const Allocation& allocation : allocations.all) {
    if (allocation.predates_trace()) now += allocation.bytes;
  }
  size_t peak = now;
  for_each_change(allocations, [&](uint32_t entry, const Allocation& allocation) {
    if (allocation.alloc_entry == entry) now += allocation.bytes;
    if (allocation.free_entry == entry) now -= allocation.bytes;
    peak = std::max(peak, now);
  });
  return peak;
}

// The result of a least-squares fit. Both fields are 0 if x or y is constant.
struct Line {
  double slope = 0;
  double r_squared = 0;
};

Line fit(const std::vector<double>& x, const std::vector<size_t>& y) {
  const auto count = static_cast<double>(x.size());
  double mean_x = 0;
  double mean_y = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    mean_x += x[i] / count;
    mean_y += static_cast<double>(y[i]) / count;
  }
  double xx = 0;
  double xy = 0;
  double yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - mean_x;
    const double dy = static_cast<double>(y[i]) - mean_y;
    xx += dx * dx;
    xy += dx * dy;
    yy += dy * dy;
  }
  if (xx == 0 || yy == 0) return {};
  return {.slope = xy / xx, .r_squared = xy * xy / (xx * yy)};
}

std::optional<Leak> LeakDetector::examine(const GroupHistory& history,
                                          size_t min_growth_bytes) const {
  Leak leak;
  leak.floors = floors_of(history);
  const size_t first = leak.floors.front();
  const size_t last = leak.floors.back();
  if (last < first || last - first < min_growth_bytes) return std::nullopt;
  const size_t rising_count = rising_parts(leak.floors);
  if (rising_count < options_.min_rising_parts) return std::nullopt;

  std::vector<double> entries;
  std::vector<double> seconds;
  bool has_times = trace_.front().has_time;
  for (size_t part = 0; part < leak.floors.size(); ++part) {
    const TraceEntry& entry = trace_[last_entry(part)];
    entries.push_back(static_cast<double>(last_entry(part)));
    has_times = has_times && entry.has_time;
    seconds.push_back(
        (static_cast<double>(entry.time_us) - static_cast<double>(trace_.front().time_us)) * 1e-6);
  }
  const Line line = fit(entries, leak.floors);
  if (line.r_squared < options_.min_r_squared) return std::nullopt;
  if (has_times && seconds.back() > 0) {
    leak.bytes_per_second = fit(seconds, leak.floors).slope;
  }
  leak.live_bytes = history.live_bytes;
  leak.live_count = history.live_count;
  leak.growth_bytes = last - first;
  leak.bytes_per_1000_entries = line.slope * 1000;
  leak.r_squared = line.r_squared;
  leak.rising_fraction =
      static_cast<double>(rising_count) / static_cast<double>(leak.floors.size() - 1);
  return leak;
}

std::vector<size_t> LeakDetector::floors_of(const GroupHistory& history) const {
  std::vector<size_t> floors(options_.part_count);
  size_t now = history.before_bytes;
  auto change = history.changes.begin();
  for (size_t part = 0; part < floors.size(); ++part) {
    size_t floor = now;
    while (change != history.changes.end() && change->entry <= last_entry(part)) {
      const uint32_t entry = change->entry;
      // One entry may replace an allocation by another allocation of the same group. The state in
      // between is skipped.
      for (; change != history.changes.end() && change->entry == entry; ++change) {
        now += change->bytes;
      }
      floor = std::min(floor, now);
    }
    floors[part] = floor;
  }
  return floors;
}

// Counts the parts whose floor is above all earlier floors, so that periodic use does not count.
size_t LeakDetector::rising_parts(const std::vector<size_t>& floors) {
  size_t count = 0;
  size_t highest = floors.front();
  for (size_t floor : floors) {
    if (floor <= highest) continue;
    ++count;
    highest = floor;
  }
  return count;
}

uint32_t LeakDetector::last_entry(size_t part) const {
  return static_cast<uint32_t>((part + 1) * trace_.size() / options_.part_count - 1);
}

}  // namespace
}  // namespace ashlar
