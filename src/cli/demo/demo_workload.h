// SPDX-License-Identifier: Apache-2.0
//
// The second workload of `ashlar demo`: four streams on two simulated devices compute one sum. The
// workload maps extents and an alias, copies between devices, synchronizes streams, and records the
// order of completion.
//
//   sim:0  left     L1 L2 L3 L4   each writes the numbers of one extent, lower half of the view
//          right    R1 R2 R3 R4   the same for the upper half
//          join     A C           after left and right: adds one via the alias; copies to sim:1
//   sim:1  reduce   Z S H         zeroes the sum; after the copy: sums, copies the sum to host
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/sim.h"
#include "ashlar/status.h"

namespace ashlar {

// The streams of the workload.
enum class Lane { kLeft, kRight, kJoin, kReduce };
inline constexpr size_t kLaneCount = 4;
std::string_view name(Lane lane);  // returns "sim:0 left", for example

// A piece of work that has finished.
struct FinishedPiece {
  Lane lane;
  std::string piece;  // "L1"
  friend bool operator==(const FinishedPiece&, const FinishedPiece&) = default;
};

// A condition on the run, and whether it held.
struct Check {
  std::string text;
  bool holds = false;
};

struct WorkloadRecord {
  std::vector<std::array<std::string, 2>> operations;  // each a device or stream, and a description
  std::vector<FinishedPiece> finished;                 // in order of completion
  std::vector<Check> checks;
  uint64_t sum = 0;                     // computed on sim:1
  std::array<sim::CallCosts, 2> costs;  // indexed by device
};

// Returns the options of a machine with two devices. A seed, if set, determines the order of
// execution.
sim::Options workload_machine(std::optional<uint64_t> seed);

// Creates a machine and runs the workload on it. Returns an error if a device call fails. A wrong
// result is not an error but a failed check.
Result<WorkloadRecord> run_workload(const sim::Options& machine);

}  // namespace ashlar
