// SPDX-License-Identifier: Apache-2.0
//
// Offline memory layout (dynamic storage allocation): assigns an address to each allocation with a
// known lifetime, such that allocations that exist at the same time do not overlap, and minimizes
// the highest address. Finding the optimum is NP-hard; this heuristic does a bounded amount of
// work. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace ashlar {

// An allocation that exists during [begin, end). REQUIRES: begin < end, bytes > 0.
struct Lifetime {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint64_t bytes = 0;
};

struct PackingOptions {
  // Budget for all attempts, in visits of overlapping allocations (about 50 ns each). At least one
  // attempt is made. See Packing::in_gaps_count for an attempt that exhausts the budget.
  uint64_t work_limit = 12'000'000;
  // Stop when the height is at most this value.
  uint64_t goal_bytes = 0;
  // Polled regularly. If it returns false, packing ends early, as if the budget were exhausted.
  std::function<bool()> keep_going{};
};

struct Packing {
  std::vector<uint64_t> addresses{};  // one address per lifetime, in the same order
  uint64_t height_bytes = 0;          // the highest end address
  // Number of allocations that were placed in the lowest gap that can hold them. The other
  // allocations are tiny and share a region on top, or were placed after the budget was exhausted,
  // above everything that overlaps them in time.
  size_t in_gaps_count = 0;
  uint32_t attempt_count = 0;
};

Packing pack(const std::vector<Lifetime>& lifetimes, const PackingOptions& options = {});

// Returns whether no two allocations overlap in both time and addresses, and `height_bytes` is
// correct.
bool is_valid_packing(const std::vector<Lifetime>& lifetimes, const Packing& packing);

}  // namespace ashlar
