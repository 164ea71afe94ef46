// SPDX-License-Identifier: Apache-2.0
//
// Translates a call into a sequence of kernels: barriers (kernels/barrier.h) and, between them,
// kernels that read and write. The steps are those of the host algorithms in symm/collectives, so
// results are bitwise equal, except for sums through a multicast switch.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "symm/backends/cuda/kernels/arguments.h"
#include "symm/operations/operations.h"

namespace ashlar::symm {

inline constexpr uint64_t kPackBytes = 16;  // the bytes that a thread moves at a time

// Returns a device address as the integer that kernels take.
inline uint64_t address_of(const std::byte* memory) { return reinterpret_cast<uint64_t>(memory); }

struct ReduceStep {
  ElementType type = ElementType::kF32;
  kernels::ReduceArguments arguments{};
};
struct CopyStep {
  uint64_t bytes = 0;  // upper bound on one copy; determines the number of blocks
  kernels::CopyArguments arguments{};
};
struct MultimemStep {
  std::optional<ElementType> sum_of{};  // empty for a store
  kernels::MultimemArguments arguments{};
};
struct CopySlicesStep {
  kernels::ExpertArguments arguments{};
};
using Step = std::variant<kernels::SignalArguments, kernels::BarrierArguments, ReduceStep, CopyStep,
                          MultimemStep, kernels::ExpertArguments, CopySlicesStep>;

// The kernels of one call, with all arguments except those in CudaOperations::LaunchBuffers and the
// addresses of the group's state, which are filled in at launch.
struct KernelPlan {
  std::vector<Step> steps;
  bool is_ordered = false;  // whether StreamOrder orders the call with the group's other calls
  size_t scratch_bytes = 0;
  std::vector<ByteRange> shares;  // the shares of an all-to-all-v, indexed by rank
};

// Plan a signal, a read of a counter, and a collective. REQUIRES: `check` (operations.h) returned
// ok; addresses are device addresses.
KernelPlan plan_for(const SignalPads& pads, const Signal& request);
KernelPlan plan_counter_read(const SignalPads& pads, int from, int channel);
Result<KernelPlan> plan_for(const CollectiveContext& context, const Collective& request);

}  // namespace ashlar::symm
