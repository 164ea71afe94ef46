// SPDX-License-Identifier: Apache-2.0
//
// Two snapshots side by side: who holds how much memory in each, by stack, by size and by stream.
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/allocations.h"
#include "analysis/stack_index.h"

namespace ashlar {

// The allocations that are compared: those present at one moment of one snapshot.
struct DiffSide {
  const Allocations& allocations;
  const std::vector<uint32_t>& stack_numbers;  // by StackId, from one index for both sides
  const std::vector<uint32_t>& which;          // positions in allocations.all
};

struct DiffRow {
  uint64_t key = 0;
  size_t base_bytes = 0;
  size_t base_count = 0;
  size_t new_bytes = 0;
  size_t new_count = 0;
  friend bool operator==(const DiffRow&, const DiffRow&) = default;

  // Positive: the new one holds more.
  int64_t difference() const { return static_cast<int64_t>(new_bytes - base_bytes); }
};

// The largest difference first, whatever its sign; what is equal comes last. In each list the sums
// over all rows are the same:  sum(base_bytes) and sum(new_bytes) are what is present.
struct Diff {
  std::vector<DiffRow> by_stack{};       // key: the stack's number
  std::vector<DiffRow> by_size_class{};  // key: n, for sizes in [2^n, 2^(n + 1))
  // Key: 0 is the default stream; the others are counted from 1 in the order in which they first
  // appear, since their ids differ from run to run.
  std::vector<DiffRow> by_stream{};
};

Diff make_diff(const DiffSide& base, const DiffSide& now);

}  // namespace ashlar
