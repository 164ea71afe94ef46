// SPDX-License-Identifier: Apache-2.0
//
// How fast this processor is at the moment. Where two of them share a core, a neighbour can halve
// that, whom this system may not even see: figures of one run can be compared only if they were
// measured at the same speed.
#pragma once

namespace ashlar {

// Nanoseconds for a fixed piece of work, about 20 us, that needs nothing but the core itself.
double measure_yardstick();

// What was measured, in nanoseconds, and what the yardstick took around it: the longer of before
// and after.
struct Sample {
  double ns = 0;
  double yardstick_ns = 0;
};

// Above so many times the shortest yardstick of a run, the processor was not its own.
inline constexpr double kMostYardstick = 1.15;

}  // namespace ashlar
