// SPDX-License-Identifier: Apache-2.0
//
// A call as kernels in a row: what waits meets the others (kernels/meet.h), what lies between two
// meetings reads and writes. The steps are those of the host's algorithms (collectives/reducing.cc,
// collectives/moving.cc), so that results have the same bits.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "symm/backends/cuda/kernels/arguments.h"
#include "symm/operations/operations.h"

namespace ashlar::symm {

inline constexpr uint64_t kPackBytes = 16;  // what a thread of a kernel moves at once

struct ReduceStep {
  ElementType type = ElementType::kF32;
  kernels::ReduceArguments arguments{};
};
struct CopyStep {
  uint64_t bytes = 0;  // of the most that one copy moves
  kernels::CopyArguments arguments{};
};
struct MultimemStep {
  std::optional<ElementType> sum_of{};  // empty: it stores
  kernels::MultimemArguments arguments{};
};
using Step = std::variant<kernels::SignalArguments, kernels::MeetArguments, ReduceStep, CopyStep,
                          MultimemStep>;

// Everything but where a rank keeps its own (kernels::Common), which is filled in at the launch.
struct Plan {
  std::vector<Step> steps;
  bool is_ordered = false;
  size_t scratch_bytes = 0;
  std::vector<Share> shares;  // of an all-to-all-v: by rank
};

// REQUIRES: checked (operations.h); addresses are the device's.
Plan plan_for(const SignalPads& pads, const Signal& what);
Plan plan_to_look(const SignalPads& pads, int from, int channel);
Result<Plan> plan_for(const Team& team, const Collective& what);

}  // namespace ashlar::symm
