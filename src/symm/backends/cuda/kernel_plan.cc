// SPDX-License-Identifier: Apache-2.0
//
// Plans each collective in a function of its own. The file is long because there are
// eleven collectives.
#include "symm/backends/cuda/kernel_plan.h"

#include <algorithm>

#include "base/align.h"
#include "symm/collectives/reductions.h"

namespace ashlar::symm {
namespace {

using kernels::CopyKind;
using kernels::ReduceDestination;

kernels::CommonArguments common_arguments(const SignalPads& pads) {
  kernels::CommonArguments common{};
  common.rank = static_cast<uint32_t>(pads.rank());
  common.world_size = static_cast<uint32_t>(pads.world_size());
  return common;
}

kernels::BarrierArguments barrier_arguments(const SignalPads& pads, int channel) {
  kernels::BarrierArguments barrier{};
  barrier.common = common_arguments(pads);
  barrier.channel = static_cast<uint32_t>(channel);
  for (int rank = 0; rank < pads.world_size(); ++rank) {
    const PadLine& first = pads.line(rank, 0, 0);
    barrier.pads[rank] = reinterpret_cast<uint64_t>(&first);
  }
  return barrier;
}

// Builds the plan of a collective, from its first to its last barrier.
class KernelPlanBuilder {
 public:
  KernelPlanBuilder(const CollectiveContext& context, const SymmetricRange& range,
                    const CallSignature& call)
      : context_(context),
        range_(range),
        barrier_(barrier_arguments(context.pads, context.channel)) {
    barrier_.is_collective = 1;
    barrier_.call = {call.code, call.bytes, call.offset_bytes, call.memory};
    plan_.is_ordered = true;
    add_barrier();
  }

  uint64_t own_range() const { return address_of(range_.address(context_.rank())); }
  size_t ranks() const { return static_cast<size_t>(context_.world_size()); }

  void add_barrier() {
    plan_.steps.emplace_back(barrier_);
    ++barrier_.barrier;
  }

  void require_scratch(size_t bytes) { plan_.scratch_bytes = std::max(plan_.scratch_bytes, bytes); }

  struct ReduceOutput {
    ReduceDestination to = ReduceDestination::kOut;
    const std::byte* out = nullptr;
  };
  void reduce(const Reduction& reduction, ByteRange part, const ReduceOutput& target) {
    if (part.bytes == 0) return;
    ReduceStep step{.type = reduction.type, .arguments = {}};
    kernels::ReduceArguments& arguments = step.arguments;
    arguments.common = barrier_.common;
    arguments.barrier = barrier_.barrier - 1;
    arguments.op = static_cast<uint32_t>(reduction.op);
    arguments.to = target.to;
    arguments.begin_bytes = part.begin_bytes;
    arguments.bytes = part.bytes;
    arguments.out = address_of(target.out);
    uint64_t all = arguments.out | part.begin_bytes;
    for (size_t rank = 0; rank < ranks(); ++rank) {
      arguments.ranges[rank] = address_of(range_.address(static_cast<int>(rank)));
      all |= arguments.ranges[rank];
    }
    arguments.is_aligned = is_aligned(all, kPackBytes) ? 1 : 0;
    plan_.steps.emplace_back(step);
  }

  // Adds a copy step, which makes one copy or one per rank. Fills in the addresses of the ranges.
  void copy(kernels::CopyArguments arguments) {
    if (arguments.bytes == 0) return;
    arguments.common = barrier_.common;
    arguments.barrier = barrier_.barrier - 1;
    for (size_t rank = 0; rank < ranks(); ++rank) {
      arguments.ranges[rank] = address_of(range_.address(static_cast<int>(rank)));
    }
    plan_.steps.emplace_back(CopyStep{.bytes = arguments.bytes, .arguments = arguments});
  }
  void copy_from_scratch(uint64_t to, size_t bytes) {
    kernels::CopyArguments back{};
    back.kind = CopyKind::kFromScratch;
    back.external = to;
    back.bytes = bytes;
    copy(back);
  }
  // Copies a part of one rank's range.
  void copy_from(int rank, ByteRange part, const std::byte* to) {
    kernels::CopyArguments one{};
    one.kind = CopyKind::kFromOne;
    one.peer = static_cast<uint32_t>(rank);
    one.range_begin = part.begin_bytes;
    one.external = address_of(to);
    one.bytes = part.bytes;
    copy(one);
  }

  // A sum through multicast from all ranks, or a store through multicast to all ranks.
  struct MultimemPath {
    std::optional<ElementType> sum_of{};
    const std::byte* multicast = nullptr;  // null if not available
    const std::byte* from = nullptr;       // source of a store
    const std::byte* to = nullptr;         // destination of a sum; null for all ranks
  };
  // Adds a multimem step for the whole packs of `bytes` bytes, if multicast is available and the
  // addresses are aligned. Returns the number of bytes that the step covers; 0 without a step.
  size_t multimem(const MultimemPath& path, size_t bytes) {
    const size_t whole = bytes / kPackBytes * kPackBytes;
    const uint64_t all = address_of(path.multicast) | address_of(path.from) | address_of(path.to);
    if (path.multicast == nullptr || whole == 0 || !is_aligned(all, kPackBytes)) return 0;
    MultimemStep step{.sum_of = path.sum_of, .arguments = {}};
    step.arguments.common = barrier_.common;
    step.arguments.barrier = barrier_.barrier - 1;
    step.arguments.multicast = address_of(path.multicast);
    step.arguments.from = address_of(path.from);
    step.arguments.to = address_of(path.to);
    step.arguments.bytes = whole;
    plan_.steps.emplace_back(step);
    return whole;
  }

  // Reduces the whole range to `out`, through the switch where possible.
  void combine(const Reduction& reduction, size_t bytes, const std::byte* multicast,
               const std::byte* out) {
    const size_t done = multimem(
        {.sum_of = reduction.type, .multicast = multicast, .from = nullptr, .to = out}, bytes);
    reduce(reduction, {.begin_bytes = done, .bytes = bytes - done},
           {.to = ReduceDestination::kOut, .out = out + done});
  }

  // Adds the kernels that exchange slices of rows. Fills in the addresses of the ranges.
  void exchange(kernels::ExpertArguments arguments) {
    arguments.common = barrier_.common;
    arguments.barrier = barrier_.barrier - 1;
    for (size_t rank = 0; rank < ranks(); ++rank) {
      arguments.ranges[rank] = address_of(range_.address(static_cast<int>(rank)));
    }
    arguments.step = kernels::ExpertStep::kRead;
    plan_.steps.emplace_back(arguments);
    arguments.step = kernels::ExpertStep::kPlace;
    plan_.steps.emplace_back(arguments);
    plan_.steps.emplace_back(CopySlicesStep{.arguments = arguments});
  }
  void set_out_bytes(uint64_t bytes) { barrier_.out_bytes = bytes; }

  void set_shares(std::vector<ByteRange> shares) { plan_.shares = std::move(shares); }

  KernelPlan finish() {
    add_barrier();
    std::get<kernels::BarrierArguments>(plan_.steps.back()).is_last = 1;
    return std::move(plan_);
  }

 private:
  const CollectiveContext& context_;
  const SymmetricRange& range_;
  kernels::BarrierArguments barrier_;  // the arguments of the next barrier
  KernelPlan plan_;
};

// Plans a reduction with one rank: copies the elements bitwise.
KernelPlan plan_single_rank(const CollectiveContext& context, const SymmetricRange& range,
                            const CallSignature& call, const std::byte* out) {
  KernelPlanBuilder builder(context, range, call);
  if (out != nullptr) builder.copy_from(0, {.begin_bytes = 0, .bytes = call.bytes}, out);
  return builder.finish();
}

KernelPlan plan_one_shot(const CollectiveContext& context, const AllReduce& request, size_t bytes) {
  const CallSignature call = signature_of(CollectiveKind::kOneShotAllReduce, request, bytes);
  if (context.world_size() == 1) return plan_single_rank(context, request.range, call, request.out);
  KernelPlanBuilder builder(context, request.range, call);
  const ByteRange whole{.begin_bytes = 0, .bytes = bytes};
  if (request.out != nullptr) {
    builder.reduce(request.reduction, whole, {.to = ReduceDestination::kOut, .out = request.out});
    return builder.finish();
  }
  // Other ranks read this rank's input until the next barrier, so the result is written to scratch
  // memory first.
  builder.require_scratch(bytes);
  builder.reduce(request.reduction, whole, {.to = ReduceDestination::kScratch});
  builder.add_barrier();
  builder.copy_from_scratch(builder.own_range(), bytes);
  return builder.finish();
}

KernelPlan plan_two_shot(const CollectiveContext& context, const AllReduce& request, size_t bytes) {
  const CallSignature call = signature_of(CollectiveKind::kTwoShotAllReduce, request, bytes);
  if (context.world_size() == 1) return plan_single_rank(context, request.range, call, request.out);
  KernelPlanBuilder builder(context, request.range, call);
  const ByteRange part = part_of_rank(context.rank(), context.world_size(), bytes);
  if (request.out == nullptr) {
    builder.reduce(request.reduction, part, {.to = ReduceDestination::kAll});
    return builder.finish();
  }
  // This rank's part of the input temporarily holds the result for the other ranks, and is restored
  // at the end.
  builder.require_scratch(part.bytes);
  builder.reduce(request.reduction, part, {.to = ReduceDestination::kOwnRange});
  builder.add_barrier();
  kernels::CopyArguments collect{};
  collect.kind = CopyKind::kPull;
  collect.bytes = bytes == 0 ? 0 : part_bytes(context.world_size(), bytes);
  collect.total = bytes;
  collect.external = address_of(request.out);
  collect.out_step = collect.bytes;
  collect.range_step = collect.bytes;
  builder.copy(collect);
  builder.add_barrier();
  builder.copy_from_scratch(builder.own_range() + part.begin_bytes, part.bytes);
  return builder.finish();
}

Result<KernelPlan> plan(const CollectiveContext& context, const ThresholdAllReduce& each) {
  const AllReduce& request = each.request;
  const size_t bytes = reduced_bytes(request);
  return bytes <= each.one_shot_bytes ? plan_one_shot(context, request, bytes)
                                      : plan_two_shot(context, request, bytes);
}

KernelPlan plan_to_root(const CollectiveContext& context, const Reduce& request,
                        CollectiveKind operation, const std::byte* multicast) {
  const size_t bytes = reduced_bytes(request);
  const CallSignature call = signature_of(operation, request, bytes);
  if (context.world_size() == 1) return plan_single_rank(context, request.range, call, request.out);
  KernelPlanBuilder builder(context, request.range, call);
  if (request.out != nullptr) builder.combine(request.reduction, bytes, multicast, request.out);
  return builder.finish();
}

Result<KernelPlan> plan(const CollectiveContext& context, const Reduce& request) {
  return plan_to_root(context, request, CollectiveKind::kReduce, nullptr);
}

Result<KernelPlan> plan(const CollectiveContext& context, const ReduceScatter& request) {
  const size_t bytes = reduced_bytes(request);
  const CallSignature call =
      signature_of(request, bytes * static_cast<size_t>(context.world_size()));
  if (context.world_size() == 1) return plan_single_rank(context, request.range, call, request.out);
  KernelPlanBuilder builder(context, request.range, call);
  const ByteRange part{.begin_bytes = bytes * static_cast<size_t>(context.rank()), .bytes = bytes};
  builder.reduce(request.reduction, part, {.to = ReduceDestination::kOut, .out = request.out});
  return builder.finish();
}

Result<KernelPlan> plan(const CollectiveContext& context, const AllGather& request) {
  const auto bytes = static_cast<size_t>(request.bytes);
  const CallSignature call =
      make_signature(request.range, CallSignature::encode(CollectiveKind::kAllGather), bytes);
  KernelPlanBuilder builder(context, request.range, call);
  kernels::CopyArguments push{};
  push.kind = CopyKind::kPush;
  push.bytes = bytes;
  push.external = address_of(request.in);
  push.range_begin = bytes * static_cast<size_t>(context.rank());
  builder.copy(push);
  return builder.finish();
}

Result<KernelPlan> plan(const CollectiveContext& context, const Broadcast& request) {
  const auto bytes = static_cast<size_t>(request.bytes);
  const uint64_t code = CallSignature::encode(CollectiveKind::kBroadcast, {}, request.root);
  KernelPlanBuilder builder(context, request.range, make_signature(request.range, code, bytes));
  const std::byte* to =
      request.out == nullptr ? request.range.address(context.rank()) : request.out;
  builder.copy_from(request.root, {.begin_bytes = 0, .bytes = bytes}, to);
  return builder.finish();
}

Result<KernelPlan> plan(const CollectiveContext& context, const AllToAll& request) {
  const auto bytes = static_cast<size_t>(request.bytes);
  const CallSignature call =
      make_signature(request.range, CallSignature::encode(CollectiveKind::kAllToAll), bytes);
  KernelPlanBuilder builder(context, request.range, call);
  kernels::CopyArguments pull{};
  pull.kind = CopyKind::kPull;
  pull.bytes = bytes;
  pull.total = bytes * builder.ranks();
  pull.external = address_of(request.out);
  pull.out_step = bytes;
  pull.range_begin = bytes * static_cast<size_t>(context.rank());
  builder.copy(pull);
  return builder.finish();
}

// The kernel of the first barrier determines the incoming shares. They are relative to the buffers,
// so the plan uses ranges that start with the buffers.
Result<KernelPlan> plan(const CollectiveContext& context, const AllToAllV& request) {
  Result<std::vector<ByteRange>> shares = split_shares(context, request);
  if (!shares.ok()) return shares.status();
  const CallSignature call =
      signature_of(request, shares->back().begin_bytes + shares->back().bytes);
  SymmetricRange buffers = request.range;
  buffers.offset_bytes = 0;
  KernelPlanBuilder builder(context, buffers, call);
  builder.set_shares(*std::move(shares));
  kernels::CopyArguments rows{};
  rows.kind = CopyKind::kRows;
  rows.bytes = static_cast<uint64_t>(request.out_bytes);
  rows.external = address_of(request.out);
  builder.copy(rows);
  KernelPlan made = builder.finish();
  for (Step& step : made.steps) {
    auto* barrier = std::get_if<kernels::BarrierArguments>(&step);
    if (barrier == nullptr) continue;
    barrier->row_bytes = static_cast<uint64_t>(request.row_bytes);
    barrier->buffer_bytes = request.range.buffer_bytes;
    barrier->out_bytes = static_cast<uint64_t>(request.out_bytes);
  }
  return made;
}

// Elements that the switch cannot add are reduced from all ranks' memory.
Result<KernelPlan> plan(const CollectiveContext& context, const MultimemAllReduce& each) {
  const AllReduce& request = each.request;
  const size_t bytes = reduced_bytes(request);
  const CallSignature call = signature_of(CollectiveKind::kMultimemAllReduce, request, bytes);
  if (context.world_size() == 1) return plan_single_rank(context, request.range, call, request.out);
  KernelPlanBuilder builder(context, request.range, call);
  if (request.out != nullptr) {
    builder.combine(request.reduction, bytes, each.multicast, request.out);
    return builder.finish();
  }
  ByteRange part = part_of_rank(context.rank(), context.world_size(), bytes);
  if (each.multicast != nullptr) {
    const std::byte* at = each.multicast + part.begin_bytes;
    const size_t done =
        builder.multimem({.sum_of = request.reduction.type, .multicast = at}, part.bytes);
    part = {.begin_bytes = part.begin_bytes + done, .bytes = part.bytes - done};
  }
  builder.reduce(request.reduction, part, {.to = ReduceDestination::kAll});
  return builder.finish();
}

Result<KernelPlan> plan(const CollectiveContext& context, const MultimemReduce& each) {
  return plan_to_root(context, each.request, CollectiveKind::kMultimemReduce, each.multicast);
}

Result<KernelPlan> plan(const CollectiveContext& context, const MultimemAllGather& each) {
  const AllGather& request = each.request;
  const auto bytes = static_cast<size_t>(request.bytes);
  const uint64_t code = CallSignature::encode(CollectiveKind::kMultimemAllGather);
  KernelPlanBuilder builder(context, request.range, make_signature(request.range, code, bytes));
  const size_t begin = bytes * static_cast<size_t>(context.rank());
  size_t done = 0;
  if (each.multicast != nullptr) {
    done = builder.multimem({.multicast = each.multicast + begin, .from = request.in}, bytes);
  }
  kernels::CopyArguments push{};
  push.kind = CopyKind::kPush;
  push.bytes = bytes - done;
  push.external = address_of(request.in) + done;
  push.range_begin = begin + done;
  builder.copy(push);
  return builder.finish();
}

static_assert(kMaxRowNumber == kernels::kMaxRowNumber);

Result<KernelPlan> plan(const CollectiveContext& context, const ExpertAllToAll& request) {
  KernelPlanBuilder builder(context, request.range, signature_of(request));
  builder.require_scratch(slice_count(context, request) * sizeof(kernels::SliceEntry));
  kernels::ExpertArguments experts{};
  experts.experts = static_cast<uint32_t>(request.experts_per_rank);
  experts.is_by_expert = request.order == SliceOrder::kByExpert ? 1 : 0;
  experts.has_offsets = request.has_offsets ? 1 : 0;
  experts.alignment_rows = static_cast<uint32_t>(request.alignment_rows);
  experts.row_bytes = static_cast<uint64_t>(request.row_bytes);
  experts.row_capacity = row_capacity(request);
  experts.splits_distance =
      static_cast<uint64_t>(request.splits_offset_bytes - request.range.offset_bytes);
  experts.out = address_of(request.out);
  experts.out_bytes = static_cast<uint64_t>(request.out_bytes);
  experts.out_splits = reinterpret_cast<uint64_t>(request.out_splits);
  experts.out_offsets = reinterpret_cast<uint64_t>(request.out_offsets);
  builder.exchange(experts);
  builder.set_out_bytes(experts.out_bytes);
  return builder.finish();
}

kernels::SignalArguments signal_arguments(const SignalPads& pads, const PadLine& line) {
  kernels::SignalArguments signal{};
  signal.common = common_arguments(pads);
  signal.line = reinterpret_cast<uint64_t>(&line);
  return signal;
}

kernels::KernelAction action_of(Signal::Kind kind) {
  switch (kind) {
    case Signal::Kind::kPut: return kernels::KernelAction::kPut;
    case Signal::Kind::kWait: return kernels::KernelAction::kWait;
    case Signal::Kind::kAdd: return kernels::KernelAction::kAdd;
    case Signal::Kind::kWaitForValue: return kernels::KernelAction::kWaitForValue;
    case Signal::Kind::kBarrier: break;
  }
  return kernels::KernelAction::kBarrier;
}

}  // namespace

KernelPlan plan_for(const SignalPads& pads, const Signal& request) {
  KernelPlan plan;
  if (request.kind == Signal::Kind::kBarrier) {
    plan.is_ordered = true;
    plan.steps.emplace_back(barrier_arguments(pads, request.channel));
    return plan;
  }
  const bool is_send = request.kind == Signal::Kind::kPut || request.kind == Signal::Kind::kAdd;
  const PadLine& line = is_send ? pads.line(request.rank, request.channel, pads.rank())
                                : pads.line(pads.rank(), request.channel, request.rank);
  kernels::SignalArguments signal = signal_arguments(pads, line);
  signal.action = action_of(request.kind);
  signal.peer = static_cast<uint32_t>(request.rank);
  signal.channel = static_cast<uint32_t>(request.channel);
  signal.value = request.value;
  plan.steps.emplace_back(signal);
  return plan;
}

KernelPlan plan_counter_read(const SignalPads& pads, int from, int channel) {
  kernels::SignalArguments arguments =
      signal_arguments(pads, pads.line(pads.rank(), channel, from));
  arguments.action = kernels::KernelAction::kReadCounter;
  KernelPlan plan;
  plan.steps.emplace_back(arguments);
  return plan;
}

Result<KernelPlan> plan_for(const CollectiveContext& context, const Collective& request) {
  return std::visit([&](const auto& each) { return plan(context, each); }, request);
}

}  // namespace ashlar::symm
