// SPDX-License-Identifier: Apache-2.0
//
// One function for each collective, which reads as the table in docs/internals/symmetric_memory.md.
#include "symm/backends/cuda/plan.h"

#include <algorithm>

#include "base/align.h"
#include "symm/collectives/part.h"

namespace ashlar::symm {
namespace {

using kernels::CopyKind;
using kernels::ReduceTo;

uint64_t address_of(const std::byte* memory) { return reinterpret_cast<uint64_t>(memory); }

kernels::Common seat_of(const SignalPads& pads) {
  kernels::Common own{};
  own.rank = static_cast<uint32_t>(pads.rank());
  own.world_size = static_cast<uint32_t>(pads.world_size());
  return own;
}

kernels::MeetArguments meeting_on(const SignalPads& pads, int channel) {
  kernels::MeetArguments meeting{};
  meeting.own = seat_of(pads);
  meeting.channel = static_cast<uint32_t>(channel);
  for (int rank = 0; rank < pads.world_size(); ++rank) {
    const PadLine& first = pads.line(rank, 0, 0);
    meeting.pads[rank] = reinterpret_cast<uint64_t>(&first);
  }
  return meeting;
}

// Puts a collective together, from its entry to its last meeting.
class Planner {
 public:
  Planner(const Team& team, const Piece& piece, const Call& call)
      : team_(team), piece_(piece), meeting_(meeting_on(team.pads, team.channel)) {
    meeting_.is_collective = 1;
    meeting_.call = {call.code, call.bytes, call.offset_bytes, call.memory};
    plan_.is_ordered = true;
    meet();
  }

  uint64_t own_piece() const { return address_of(piece_.of(team_.rank())); }
  size_t ranks() const { return static_cast<size_t>(team_.world_size()); }

  void meet() {
    plan_.steps.emplace_back(meeting_);
    ++meeting_.meeting;
  }

  void need_scratch(size_t bytes) { plan_.scratch_bytes = std::max(plan_.scratch_bytes, bytes); }

  struct Reduced {
    ReduceTo to = ReduceTo::kOut;
    const std::byte* out = nullptr;
  };
  void reduce(const Reduction& what, Part part, const Reduced& target) {
    if (part.bytes == 0) return;
    ReduceStep step{.type = what.type, .arguments = {}};
    kernels::ReduceArguments& arguments = step.arguments;
    arguments.own = meeting_.own;
    arguments.meeting = meeting_.meeting - 1;
    arguments.op = static_cast<uint32_t>(what.op);
    arguments.to = target.to;
    arguments.begin_bytes = part.begin_bytes;
    arguments.bytes = part.bytes;
    arguments.out = address_of(target.out);
    uint64_t all = arguments.out | part.begin_bytes;
    for (size_t rank = 0; rank < ranks(); ++rank) {
      arguments.pieces[rank] = address_of(piece_.of(static_cast<int>(rank)));
      all |= arguments.pieces[rank];
    }
    arguments.is_aligned = is_aligned(all, kPackBytes) ? 1 : 0;
    plan_.steps.emplace_back(step);
  }

  // One copy, or one for each rank; `arguments` says all but the places of pieces.
  void copy(kernels::CopyArguments arguments) {
    if (arguments.bytes == 0) return;
    arguments.own = meeting_.own;
    arguments.meeting = meeting_.meeting - 1;
    for (size_t rank = 0; rank < ranks(); ++rank) {
      arguments.pieces[rank] = address_of(piece_.of(static_cast<int>(rank)));
    }
    plan_.steps.emplace_back(CopyStep{.bytes = arguments.bytes, .arguments = arguments});
  }
  void put_back(uint64_t to, size_t bytes) {
    kernels::CopyArguments back{};
    back.kind = CopyKind::kFromScratch;
    back.elsewhere = to;
    back.bytes = bytes;
    copy(back);
  }
  // The first bytes of one rank's piece, or what begins there.
  void copy_from(int rank, Part part, const std::byte* to) {
    kernels::CopyArguments one{};
    one.kind = CopyKind::kFromOne;
    one.peer = static_cast<uint32_t>(rank);
    one.piece_begin = part.begin_bytes;
    one.elsewhere = address_of(to);
    one.bytes = part.bytes;
    copy(one);
  }

  // Through the switch, whole packs from the beginning; how many bytes those are. 0: not at all.
  struct Through {
    std::optional<ElementType> sum_of{};
    const std::byte* multicast = nullptr;  // null: there is none
    const std::byte* from = nullptr;       // of a store
    const std::byte* to = nullptr;         // of a sum; null: to all
  };
  size_t multimem(const Through& way, size_t bytes) {
    const size_t whole = bytes / kPackBytes * kPackBytes;
    const uint64_t all = address_of(way.multicast) | address_of(way.from) | address_of(way.to);
    if (way.multicast == nullptr || whole == 0 || !is_aligned(all, kPackBytes)) return 0;
    MultimemStep step{.sum_of = way.sum_of, .arguments = {}};
    step.arguments.own = meeting_.own;
    step.arguments.meeting = meeting_.meeting - 1;
    step.arguments.multicast = address_of(way.multicast);
    step.arguments.from = address_of(way.from);
    step.arguments.to = address_of(way.to);
    step.arguments.bytes = whole;
    plan_.steps.emplace_back(step);
    return whole;
  }

  // All of the piece, combined here; what the switch does not do is read from all ranks' memory.
  void combine(const Reduction& what, size_t bytes, const std::byte* multicast,
               const std::byte* out) {
    const size_t done =
        multimem({.sum_of = what.type, .multicast = multicast, .from = nullptr, .to = out}, bytes);
    reduce(what, {.begin_bytes = done, .bytes = bytes - done},
           {.to = ReduceTo::kOut, .out = out + done});
  }

  // Of an all-to-all-v: who is sent what.
  void set_shares(std::vector<Share> shares) { plan_.shares = std::move(shares); }

  Plan finish() {
    meet();
    std::get<kernels::MeetArguments>(plan_.steps.back()).is_last = 1;
    return std::move(plan_);
  }

 private:
  const Team& team_;
  const Piece& piece_;
  kernels::MeetArguments meeting_;  // the next
  Plan plan_;
};

// One rank's elements are the result, bit for bit, and no arithmetic touches them.
Plan plan_alone(const Team& team, const Piece& piece, const Call& call, const std::byte* out) {
  Planner planner(team, piece, call);
  if (out != nullptr) planner.copy_from(0, {.begin_bytes = 0, .bytes = call.bytes}, out);
  return planner.finish();
}

Plan plan_one_shot(const Team& team, const AllReduce& request, size_t bytes) {
  const Call call = call_for(Operation::kOneShotAllReduce, request, bytes);
  if (team.world_size() == 1) return plan_alone(team, request.piece, call, request.out);
  Planner planner(team, request.piece, call);
  const Part whole{.begin_bytes = 0, .bytes = bytes};
  if (request.out != nullptr) {
    planner.reduce(request.what, whole, {.to = ReduceTo::kOut, .out = request.out});
    return planner.finish();
  }
  // Others read this rank's input until they meet again.
  planner.need_scratch(bytes);
  planner.reduce(request.what, whole, {.to = ReduceTo::kScratch});
  planner.meet();
  planner.put_back(planner.own_piece(), bytes);
  return planner.finish();
}

Plan plan_two_shot(const Team& team, const AllReduce& request, size_t bytes) {
  const Call call = call_for(Operation::kTwoShotAllReduce, request, bytes);
  if (team.world_size() == 1) return plan_alone(team, request.piece, call, request.out);
  Planner planner(team, request.piece, call);
  const Part part = part_of(team.rank(), team.world_size(), bytes);
  if (request.out == nullptr) {
    planner.reduce(request.what, part, {.to = ReduceTo::kAll});
    return planner.finish();
  }
  // The result of a part waits for the others in its place in the input, which is put back at last.
  planner.need_scratch(part.bytes);
  planner.reduce(request.what, part, {.to = ReduceTo::kSaved});
  planner.meet();
  kernels::CopyArguments collect{};
  collect.kind = CopyKind::kPull;
  collect.bytes = bytes == 0 ? 0 : part_bytes(team.world_size(), bytes);
  collect.total = bytes;
  collect.elsewhere = address_of(request.out);
  collect.out_step = collect.bytes;
  collect.piece_step = collect.bytes;
  planner.copy(collect);
  planner.meet();
  planner.put_back(planner.own_piece() + part.begin_bytes, part.bytes);
  return planner.finish();
}

Result<Plan> plan(const Team& team, const ThresholdAllReduce& each) {
  const AllReduce& request = each.request;
  const size_t bytes = reduced_bytes(request);
  return bytes <= each.one_shot_bytes ? plan_one_shot(team, request, bytes)
                                      : plan_two_shot(team, request, bytes);
}

Plan plan_to_root(const Team& team, const Reduce& request, Operation operation,
                  const std::byte* multicast) {
  const size_t bytes = reduced_bytes(request);
  const Call call = call_for(operation, request, bytes);
  if (team.world_size() == 1) return plan_alone(team, request.piece, call, request.out);
  Planner planner(team, request.piece, call);
  if (request.out != nullptr) planner.combine(request.what, bytes, multicast, request.out);
  return planner.finish();
}

Result<Plan> plan(const Team& team, const Reduce& request) {
  return plan_to_root(team, request, Operation::kReduce, nullptr);
}

Result<Plan> plan(const Team& team, const ReduceScatter& request) {
  const size_t bytes = reduced_bytes(request);
  const Call call = call_for(request, bytes * static_cast<size_t>(team.world_size()));
  if (team.world_size() == 1) return plan_alone(team, request.piece, call, request.out);
  Planner planner(team, request.piece, call);
  const Part part{.begin_bytes = bytes * static_cast<size_t>(team.rank()), .bytes = bytes};
  planner.reduce(request.what, part, {.to = ReduceTo::kOut, .out = request.out});
  return planner.finish();
}

Result<Plan> plan(const Team& team, const AllGather& request) {
  const auto bytes = static_cast<size_t>(request.bytes);
  const Call call = call_on(request.piece, Call::code_of(Operation::kAllGather), bytes);
  Planner planner(team, request.piece, call);
  kernels::CopyArguments push{};
  push.kind = CopyKind::kPush;
  push.bytes = bytes;
  push.elsewhere = address_of(request.in);
  push.piece_begin = bytes * static_cast<size_t>(team.rank());
  planner.copy(push);
  return planner.finish();
}

Result<Plan> plan(const Team& team, const Broadcast& request) {
  const auto bytes = static_cast<size_t>(request.bytes);
  const uint64_t code = Call::code_of(Operation::kBroadcast, {}, request.root);
  Planner planner(team, request.piece, call_on(request.piece, code, bytes));
  const std::byte* to = request.out == nullptr ? request.piece.of(team.rank()) : request.out;
  planner.copy_from(request.root, {.begin_bytes = 0, .bytes = bytes}, to);
  return planner.finish();
}

Result<Plan> plan(const Team& team, const AllToAll& request) {
  const auto bytes = static_cast<size_t>(request.bytes);
  const Call call = call_on(request.piece, Call::code_of(Operation::kAllToAll), bytes);
  Planner planner(team, request.piece, call);
  kernels::CopyArguments pull{};
  pull.kind = CopyKind::kPull;
  pull.bytes = bytes;
  pull.total = bytes * planner.ranks();
  pull.elsewhere = address_of(request.out);
  pull.out_step = bytes;
  pull.piece_begin = bytes * static_cast<size_t>(team.rank());
  planner.copy(pull);
  return planner.finish();
}

// How much comes, and from where, the entry finds out; shares count from the buffers' beginning.
Result<Plan> plan(const Team& team, const AllToAllV& request) {
  Result<std::vector<Share>> shares = shares_of(team, request);
  if (!shares.ok()) return shares.status();
  const Call call = call_for(request, shares->back().begin_bytes + shares->back().bytes);
  Piece buffers = request.piece;
  buffers.offset_bytes = 0;
  Planner planner(team, buffers, call);
  planner.set_shares(*std::move(shares));
  kernels::CopyArguments rows{};
  rows.kind = CopyKind::kRows;
  rows.bytes = static_cast<uint64_t>(request.out_bytes);
  rows.elsewhere = address_of(request.out);
  planner.copy(rows);
  Plan made = planner.finish();
  for (Step& step : made.steps) {
    auto* meeting = std::get_if<kernels::MeetArguments>(&step);
    if (meeting == nullptr) continue;
    meeting->row_bytes = static_cast<uint64_t>(request.row_bytes);
    meeting->buffer_bytes = request.piece.buffer_bytes;
    meeting->out_bytes = static_cast<uint64_t>(request.out_bytes);
  }
  return made;
}

// What the switch cannot add, and what is left over, is combined from all ranks' memory.
Result<Plan> plan(const Team& team, const MultimemAllReduce& each) {
  const AllReduce& request = each.request;
  const size_t bytes = reduced_bytes(request);
  const Call call = call_for(Operation::kMultimemAllReduce, request, bytes);
  if (team.world_size() == 1) return plan_alone(team, request.piece, call, request.out);
  Planner planner(team, request.piece, call);
  if (request.out != nullptr) {
    planner.combine(request.what, bytes, each.multicast, request.out);
    return planner.finish();
  }
  Part part = part_of(team.rank(), team.world_size(), bytes);
  if (each.multicast != nullptr) {
    const std::byte* at = each.multicast + part.begin_bytes;
    const size_t done =
        planner.multimem({.sum_of = request.what.type, .multicast = at}, part.bytes);
    part = {.begin_bytes = part.begin_bytes + done, .bytes = part.bytes - done};
  }
  planner.reduce(request.what, part, {.to = ReduceTo::kAll});
  return planner.finish();
}

Result<Plan> plan(const Team& team, const MultimemReduce& each) {
  return plan_to_root(team, each.request, Operation::kMultimemReduce, each.multicast);
}

Result<Plan> plan(const Team& team, const MultimemAllGather& each) {
  const AllGather& request = each.request;
  const auto bytes = static_cast<size_t>(request.bytes);
  const uint64_t code = Call::code_of(Operation::kMultimemAllGather);
  Planner planner(team, request.piece, call_on(request.piece, code, bytes));
  const size_t begin = bytes * static_cast<size_t>(team.rank());
  size_t done = 0;
  if (each.multicast != nullptr) {
    done = planner.multimem({.multicast = each.multicast + begin, .from = request.in}, bytes);
  }
  kernels::CopyArguments push{};
  push.kind = CopyKind::kPush;
  push.bytes = bytes - done;
  push.elsewhere = address_of(request.in) + done;
  push.piece_begin = begin + done;
  planner.copy(push);
  return planner.finish();
}

kernels::SignalArguments signal_on(const SignalPads& pads, const PadLine& line) {
  kernels::SignalArguments signal{};
  signal.own = seat_of(pads);
  signal.line = reinterpret_cast<uint64_t>(&line);
  return signal;
}

kernels::Act act_of(Signal::Kind kind) {
  switch (kind) {
    case Signal::Kind::kPut: return kernels::Act::kPut;
    case Signal::Kind::kWait: return kernels::Act::kWait;
    case Signal::Kind::kAdd: return kernels::Act::kAdd;
    case Signal::Kind::kWaitForValue: return kernels::Act::kWaitForValue;
    case Signal::Kind::kBarrier: break;
  }
  return kernels::Act::kBarrier;
}

}  // namespace

Plan plan_for(const SignalPads& pads, const Signal& what) {
  Plan plan;
  if (what.kind == Signal::Kind::kBarrier) {
    plan.is_ordered = true;
    plan.steps.emplace_back(meeting_on(pads, what.channel));
    return plan;
  }
  const bool is_told = what.kind == Signal::Kind::kPut || what.kind == Signal::Kind::kAdd;
  const PadLine& line = is_told ? pads.line(what.rank, what.channel, pads.rank())
                                : pads.line(pads.rank(), what.channel, what.rank);
  kernels::SignalArguments signal = signal_on(pads, line);
  signal.act = act_of(what.kind);
  signal.peer = static_cast<uint32_t>(what.rank);
  signal.channel = static_cast<uint32_t>(what.channel);
  signal.value = what.value;
  plan.steps.emplace_back(signal);
  return plan;
}

Plan plan_to_look(const SignalPads& pads, int from, int channel) {
  kernels::SignalArguments look = signal_on(pads, pads.line(pads.rank(), channel, from));
  look.act = kernels::Act::kLook;
  Plan plan;
  plan.steps.emplace_back(look);
  return plan;
}

Result<Plan> plan_for(const Team& team, const Collective& what) {
  return std::visit([&](const auto& each) { return plan(team, each); }, what);
}

}  // namespace ashlar::symm
