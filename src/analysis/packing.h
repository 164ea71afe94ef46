// SPDX-License-Identifier: Apache-2.0
//
// Packing allocations whose lifetimes are all known: an address for each, so that no two that exist
// at the same time overlap, and the highest address is as low as we can make it. Finding the lowest
// is NP-hard; this finds a good one within a bounded amount of work. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ashlar {

// Exists during [begin, end). REQUIRES: begin < end, bytes > 0.
struct Lifetime {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint64_t bytes = 0;
};

struct PackingOptions {
  // How many looks at a placed neighbour all attempts together may take; a look is some 50 ns.
  // Attempts are made as long as there is work left; the first one is always finished.
  uint64_t work_limit = 12'000'000;
  // As good as this is good enough.
  uint64_t goal_bytes = 0;
};

struct Packing {
  std::vector<uint64_t> addresses{};  // by lifetime
  uint64_t height_bytes = 0;          // of the highest end
  // Of the best attempt, how many were put into the lowest hole that takes them. The others are
  // small and have a region above, or came when the work was used up: they lie above everything
  // that exists during their lives, and leave holes empty.
  size_t into_holes_count = 0;
  uint32_t attempt_count = 0;
};

Packing pack(const std::vector<Lifetime>& lifetimes, const PackingOptions& options = {});

// Whether no two overlap in time and in addresses, and `height_bytes` is true.
bool is_packed(const std::vector<Lifetime>& lifetimes, const Packing& packing);

}  // namespace ashlar
