// SPDX-License-Identifier: Apache-2.0
//
// Compares the memory of two snapshots by stack, size class and stream. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "analysis/allocations.h"
#include "analysis/stack_index.h"

namespace ashlar {

// One side of a comparison: the allocations that occupy memory at one moment of one snapshot.
struct DiffSide {
  const Allocations& allocations;
  const std::vector<uint32_t>& stack_numbers;  // indexed by StackId; both sides share a StackIndex
  const std::vector<uint32_t>& selected;       // indexes into allocations.all
};

struct DiffRow {
  uint64_t key = 0;
  size_t base_bytes = 0;
  size_t base_count = 0;
  size_t new_bytes = 0;
  size_t new_count = 0;
  friend bool operator==(const DiffRow&, const DiffRow&) = default;

  // Positive if the new side has more bytes.
  int64_t difference() const { return static_cast<int64_t>(new_bytes - base_bytes); }
};

// The differences between two snapshots. Rows are sorted by the absolute difference, largest first.
// In each list, sum(base_bytes) equals the bytes of the base side, and sum(new_bytes) those of the
// new side.
struct Diff {
  std::vector<DiffRow> by_stack{};       // key: stack number
  std::vector<DiffRow> by_size_class{};  // key: see size_class_of()
  // Key: 0 is the default stream. Other streams are numbered from 1 in the order of first
  // appearance, because stream ids differ from run to run.
  std::vector<DiffRow> by_stream{};
};

// Polls `keep_going` regularly. If it returns false, ends early, and the result is incomplete.
Diff make_diff(const DiffSide& base, const DiffSide& now,
               const std::function<bool()>& keep_going = {});

}  // namespace ashlar
