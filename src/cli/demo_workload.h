// SPDX-License-Identifier: Apache-2.0
//
// The workload that `ashlar demo` shows: two simulated devices, four streams, one result. It asks
// for everything a memory system needs of a device, and keeps a record of what happened.
//
//   sim:0  left     L1 L2 L3 L4   each writes the numbers of one extent, lower half of the view
//          right    R1 R2 R3 R4   the same for the upper half
//          join     A C           after left and right: adds one through the alias; copies to sim:1
//   sim:1  reduce   Z S H         zeroes the sum; after the copy: adds up, copies the sum to the
//   host
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

enum class Lane { kLeft, kRight, kJoin, kReduce };
inline constexpr size_t kLaneCount = 4;
std::string_view name(Lane lane);  // "sim:0 left"

// One finished piece of work.
struct Finished {
  Lane lane;
  std::string piece;  // "L1"
  friend bool operator==(const Finished&, const Finished&) = default;
};

// Something that must be true of the run, and whether it was.
struct Check {
  std::string sentence;
  bool holds = false;
};

struct WorkloadRecord {
  std::vector<std::array<std::string, 2>> asked;  // where, and what for: in the order of asking
  std::vector<Finished> finished;                 // in the order of finishing
  std::vector<Check> checks;
  uint64_t sum = 0;                     // what came out
  std::array<sim::CallCosts, 2> costs;  // of the two devices
};

// The machine the workload runs on: two devices; a seed makes the order of things follow from it.
sim::Options workload_machine(std::optional<uint64_t> seed);

// Makes a machine and runs the workload on it. Fails when a device call does; a wrong result is not
// a failure but a check that does not hold.
Result<WorkloadRecord> run_workload(const sim::Options& machine);

}  // namespace ashlar
