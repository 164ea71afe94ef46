// SPDX-License-Identifier: Apache-2.0
//
// Computes each peak in one pass over the allocations. packing.cc finds the layout.
#include "analysis/lower_bound.h"

#include <algorithm>

#include "base/align.h"

namespace ashlar {
namespace {

constexpr size_t kAlignmentBytes = 512;

// Returns the maximum over time of the sum of to_counted(size). An allocation counts from its alloc
// entry until its free completes, a failed request at its entry.
template <typename ToCounted>
size_t peak_of(const Allocations& allocations, ToCounted to_counted) {
  size_t now = 0;
  for (const Allocation& allocation : allocations.all) {
    if (allocation.predates_trace()) now += to_counted(allocation.bytes);
  }
  size_t peak = now;
  auto failed = allocations.failed.begin();
  const auto fail_before = [&](uint32_t entry) {
    for (; failed != allocations.failed.end() && failed->entry < entry; ++failed) {
      peak = std::max(peak, now + to_counted(failed->bytes));
    }
  };
  for_each_change(allocations, [&](uint32_t entry, const Allocation& allocation) {
    fail_before(entry);
    if (allocation.alloc_entry == entry) now += to_counted(allocation.bytes);
    if (allocation.completed_entry == entry) now -= to_counted(allocation.bytes);
    peak = std::max(peak, now);
  });
  fail_before(Allocation::kNoEntry);
  return peak;
}

// Clamps implausible sizes, which would overflow.
size_t rounded(size_t bytes) {
  constexpr size_t kMaxBytes = size_t{1} << 48;
  return align_up(std::min(bytes, kMaxBytes), kAlignmentBytes);
}

}  // namespace

LowerBound find_lower_bound(const Allocations& allocations,
                            const std::function<bool()>& keep_going) {
  LowerBound bound;
  bound.requested_bytes = peak_of(allocations, [](size_t bytes) { return bytes; });
  bound.rounded_bytes = peak_of(allocations, rounded);
  bound.packed_bytes =
      pack(lifetimes_of(allocations), {.goal_bytes = bound.rounded_bytes, .keep_going = keep_going})
          .height_bytes;
  return bound;
}

std::vector<Lifetime> lifetimes_of(const Allocations& allocations) {
  const auto end_of_trace = static_cast<uint32_t>(allocations.by_entry.size()) + 1;
  std::vector<Lifetime> lifetimes;
  for (const Allocation& allocation : allocations.all) {
    if (allocation.bytes == 0) continue;
    const bool is_completed = allocation.completed_entry != Allocation::kNoEntry;
    lifetimes.push_back({.begin = allocation.predates_trace() ? 0 : allocation.alloc_entry + 1,
                         .end = is_completed ? allocation.completed_entry + 1 : end_of_trace,
                         .bytes = rounded(allocation.bytes)});
  }
  for (const FailedRequest& each : allocations.failed) {
    lifetimes.push_back(
        {.begin = each.entry + 1, .end = each.entry + 2, .bytes = rounded(each.bytes)});
  }
  return lifetimes;
}

}  // namespace ashlar
