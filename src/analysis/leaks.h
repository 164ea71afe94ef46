// SPDX-License-Identifier: Apache-2.0
//
// Who keeps taking memory: groups of allocations, by the stack that made them, whose live bytes
// grow from the beginning of a trace to its end. Steady use, one-time set-up and seasons are not
// leaks: what counts is the floor, below which a group never falls in one part of the trace. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/allocations.h"
#include "analysis/stack_index.h"

namespace ashlar {

// What the allocations of a group have in common: their stack or, where a trace has no stacks,
// their size class and stream.
struct LeakGroup {
  uint32_t stack = StackIndex::kNoStack;
  uint32_t size_class = 0;  // as size_class_of has it
  StreamId stream{};
  friend auto operator<=>(const LeakGroup&, const LeakGroup&) = default;
};

struct Leak {
  LeakGroup group{};
  size_t live_bytes = 0;  // at the end
  size_t live_count = 0;
  size_t growth_bytes = 0;  // of the floor, since the start
  // Slopes of the line through the floors.
  std::optional<double> bytes_per_second{};  // none: the trace has no times
  double bytes_per_1000_entries = 0;
  double r_squared = 0;     // how well that line fits: 1 is perfectly
  double rising_share = 0;  // of the parts of the trace, those in which the floor rose
  std::vector<size_t> floors{};
};

struct Leaks {
  bool has_stacks = false;
  size_t group_count = 0;       // looked at
  std::vector<Leak> growing{};  // the most growth first
};

struct LeakOptions {
  size_t part_count = 32;  // of the trace, of equally many entries
  // Groups that grew less are left out: a part of the largest live bytes at any one time.
  double least_growth = 0.001;
  double least_r_squared = 0.8;
  // In at least so many parts the floor of a leak rises above all that was before.
  size_t least_rising_parts = 4;
};

// `stack_numbers`: by StackId, as from StackIndex::add for the tables of the snapshot.
// REQUIRES: options.part_count > 1.
Leaks find_leaks(const std::vector<TraceEntry>& trace, const Allocations& allocations,
                 const std::vector<uint32_t>& stack_numbers, const LeakOptions& options = {});

}  // namespace ashlar
