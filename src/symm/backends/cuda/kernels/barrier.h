// SPDX-License-Identifier: Apache-2.0
//
// Barriers: on their own, or as part of a collective. The latter do what CollectiveRunner does on
// the host: a collective that timed out is continued by the same call, and no other call may start.
//
// Runs in one block with one thread per rank, which signals that rank and waits for it. All threads
// make the same decision from the state that the previous kernel left. Only the presence of an
// unreported error can change during the barrier; if one thread skips because of it, all skip. The
// last thread to finish concludes the barrier. Every rank signals every other, even in large
// groups, because the threads do so in parallel.
#pragma once

#include "symm/backends/cuda/kernels/wait.h"
#include "symm/signals/pad_line.h"

namespace ashlar::symm::kernels {

ASHLAR_ON_DEVICE bool is_same(const CallWords& a, const CallWords& b) {
  return a.code == b.code && a.bytes == b.bytes && a.offset_bytes == b.offset_bytes &&
         a.memory == b.memory;
}

ASHLAR_ON_DEVICE PadLine* line_of(const BarrierArguments& args, uint32_t owner, uint32_t source) {
  const uint64_t index = uint64_t{args.common.world_size} * args.channel + source;
  return device_memory<PadLine>(args.pads[owner] + index * sizeof(PadLine));
}

enum class BarrierAction : uint32_t {
  kRun,
  kPass,    // already completed
  kRefuse,  // another collective is unfinished
  kSkip     // an earlier error has not been reported yet
};

ASHLAR_ON_DEVICE BarrierAction decide(const BarrierArguments& args) {
  const bool is_entry = args.is_collective == 0 || args.barrier == 0;
  if (is_entry && has_unreported_error(args.common)) return BarrierAction::kSkip;
  if (args.is_collective == 0) return BarrierAction::kRun;
  const DeviceState* state = state_of(args.common);
  if (!is_entry) {
    if (state->is_running == 0) return BarrierAction::kSkip;
    return state->completed_barriers == args.barrier && state->has_left == 0 ? BarrierAction::kRun
                                                                             : BarrierAction::kPass;
  }
  if (state->is_unfinished == 0) return BarrierAction::kRun;
  if (!is_same(state->call, args.call)) return BarrierAction::kRefuse;
  return state->completed_barriers == 0 ? BarrierAction::kRun : BarrierAction::kPass;
}

ASHLAR_ON_DEVICE void write_notes(PadLine* line, const CallWords& call) {
  store(&line->notes[0], call.code);
  store(&line->notes[1], call.bytes);
  store(&line->notes[2], call.offset_bytes);
  store(&line->noted_memory, static_cast<uint32_t>(call.memory));
}

ASHLAR_ON_DEVICE CallWords read_notes(const PadLine* line) {
  return {load(&line->notes[0]), load(&line->notes[1]), load(&line->notes[2]),
          load(&line->noted_memory)};
}

// Copies word by word. For a copy of the struct, clang puts all arguments on every thread's stack.
ASHLAR_ON_DEVICE CallWords signature_of(const BarrierArguments& args) {
  return {args.call.code, args.call.bytes, args.call.offset_bytes, args.call.memory};
}

// For an all-to-all-v, each rank gets its own share.
ASHLAR_ON_DEVICE CallWords signature_for(const BarrierArguments& args, uint32_t peer) {
  CallWords call = signature_of(args);
  if (args.rows == 0) return call;
  const RowShare* share = &host_memory<CallRecord>(args.rows)->shares[peer];
  call.bytes = load(&share->bytes);
  call.offset_bytes += load(&share->begin_bytes);
  return call;
}

ASHLAR_ON_DEVICE WaitResult signal_and_wait(const BarrierArguments& args, uint32_t peer,
                                            uint64_t number, const SpinPolicy& policy) {
  const uint32_t rank = args.common.rank;
  PadLine* there = line_of(args, peer, rank);
  if (args.is_collective != 0 && args.barrier == 0) write_notes(there, signature_for(args, peer));
  if (peer == rank) return WaitResult::kDone;
  store_release(&there->barrier, number);
  const PadLine* here = line_of(args, rank, peer);
  return wait_until([&] { return load_acquire(&here->barrier) >= number; }, policy);
}

// Returns kDone if all ranks have arrived. Records missing ranks in `result`.
ASHLAR_ON_DEVICE WaitResult collect_missing(const BarrierArguments& args, KernelResult& result) {
  const DeviceState* state = state_of(args.common);
  WaitResult all = WaitResult::kDone;
  ASHLAR_NO_UNROLL
  for (uint32_t peer = 0; peer < args.common.world_size; ++peer) {
    const WaitResult waited = static_cast<WaitResult>(load(&state->missing[peer]));
    if (waited == WaitResult::kDone) continue;
    result.missing[peer / 32] |= 1u << (peer % 32);
    if (all != WaitResult::kFailed) all = waited;
  }
  return all;
}

ASHLAR_ON_DEVICE bool has_skipped(const BarrierArguments& args) {
  const DeviceState* state = state_of(args.common);
  bool has = false;
  ASHLAR_NO_UNROLL
  for (uint32_t peer = 0; peer < args.common.world_size; ++peer) {
    has = has || load(&state->missing[peer]) == static_cast<uint32_t>(WaitResult::kSkipped);
  }
  return has;
}

// Every rank has the same signatures from all ranks, so all get the same result.
ASHLAR_ON_DEVICE void compare_calls(const BarrierArguments& args, DeviceState* state) {
  const bool has_rows = args.rows != 0;
  CallWords first = signature_of(args);
  if (!has_rows) first = read_notes(line_of(args, args.common.rank, 0));
  ASHLAR_NO_UNROLL
  for (uint32_t peer = 0; peer < args.common.world_size; ++peer) {
    const CallWords theirs = read_notes(line_of(args, args.common.rank, peer));
    const bool agrees = has_rows ? theirs.code == first.code && theirs.memory == first.memory
                                 : is_same(theirs, first);
    if (agrees) continue;
    state->outcome = ResultKind::kMismatch;
    state->outcome_rank = peer;
    state->disagreed = theirs;
    state->agreed = first;
    return;
  }
}

// For an all-to-all-v: computes where incoming rows go. Reads each word of a peer once, so that a
// peer cannot change a value between check and use.
ASHLAR_ON_DEVICE void plan_output(const BarrierArguments& args, DeviceState* state) {
  uint64_t to = 0;
  ASHLAR_NO_UNROLL
  for (uint32_t peer = 0; peer < args.common.world_size; ++peer) {
    const CallWords share = read_notes(line_of(args, args.common.rank, peer));
    if (share.offset_bytes > args.buffer_bytes ||
        share.bytes > args.buffer_bytes - share.offset_bytes) {
      state->outcome = ResultKind::kOutOfRange;
      state->outcome_rank = peer;
      state->disagreed = share;
      return;
    }
    state->incoming[peer] = {share.offset_bytes, share.bytes, to};
    to += share.bytes;
  }
  state->needed_bytes = to;
  if (to > args.out_bytes) state->outcome = ResultKind::kOutputTooSmall;
}

ASHLAR_ON_DEVICE void report_rows(const BarrierArguments& args, const DeviceState* state) {
  if (state->outcome != ResultKind::kNone && state->outcome != ResultKind::kOutputTooSmall) return;
  CallRecord* record = host_memory<CallRecord>(args.rows);
  ASHLAR_NO_UNROLL
  for (uint32_t peer = 0; peer < args.common.world_size; ++peer) {
    record->out_splits[peer] = static_cast<int64_t>(state->incoming[peer].bytes / args.row_bytes);
    record->out_offsets[peer] = static_cast<int64_t>(state->incoming[peer].to / args.row_bytes);
  }
  record->has_rows = 1;
}

// Called after the last barrier.
ASHLAR_ON_DEVICE void finish_collective(const BarrierArguments& args, DeviceState* state) {
  state->is_running = 0;
  if (args.rows != 0) report_rows(args, state);
  if (state->outcome == ResultKind::kNone) return;
  KernelResult result{};
  result.kind = state->outcome;
  result.action = KernelAction::kCollective;
  result.rank = static_cast<uint32_t>(state->outcome_rank);
  result.value = state->needed_bytes;
  result.called = state->disagreed;
  result.expected = signature_of(args);
  if (state->outcome == ResultKind::kMismatch) {
    result.expected = {load(&state->agreed.code), load(&state->agreed.bytes),
                       load(&state->agreed.offset_bytes), load(&state->agreed.memory)};
  }
  if (state->outcome == ResultKind::kOutputTooSmall) result.called.bytes = args.out_bytes;
  state->outcome = ResultKind::kNone;
  report(args.common, result);
}

// Called by the first barrier: starts or continues a collective.
ASHLAR_ON_DEVICE void begin_collective(const BarrierArguments& args, DeviceState* state,
                                       uint64_t began) {
  state->is_running = 1;
  state->began_ns = began;
  if (state->is_unfinished != 0) {
    state->is_unfinished = 0;
    return;
  }
  state->completed_barriers = 0;
  state->is_work_done = 0;
  state->has_left = 0;
  state->outcome = ResultKind::kNone;
  state->scratch = args.scratch;
  state->call = signature_of(args);
}

ASHLAR_ON_DEVICE void end_early(const BarrierArguments& args, KernelResult& result,
                                WaitResult waited, const SpinPolicy& policy) {
  result.kind = waited == WaitResult::kFailed ? ResultKind::kFailed : ResultKind::kTimeout;
  result.waited_ns = now_ns() - policy.began_ns;
  if (args.is_collective != 0) {
    DeviceState* state = state_of(args.common);
    state->is_running = 0;
    state->is_unfinished = waited == WaitResult::kTimeout ? 1 : 0;
    // In stream order, the work before this barrier is done when it starts.
    state->is_work_done = 1;
    store_release(&board_of(args.common)->has_incomplete_collective, uint32_t{1});
  }
  report(args.common, result);
}

ASHLAR_ON_DEVICE void conclude(const BarrierArguments& args, BarrierAction action, uint64_t number,
                               const SpinPolicy& policy) {
  DeviceState* state = state_of(args.common);
  const bool is_entry = args.is_collective != 0 && args.barrier == 0;
  KernelResult result{};
  result.action = args.is_collective != 0 ? KernelAction::kCollective : KernelAction::kBarrier;
  result.channel = args.channel;
  if (action == BarrierAction::kSkip || action == BarrierAction::kRefuse) {
    if (args.is_collective != 0 && !is_entry) return;
    state->is_running = 0;
    result.kind = action == BarrierAction::kSkip ? ResultKind::kSkipped : ResultKind::kUnfinished;
    result.called = signature_of(args);
    result.expected = state->call;
    report(args.common, result);
    return;
  }
  if (is_entry) begin_collective(args, state, policy.began_ns);
  if (action == BarrierAction::kRun) {
    const WaitResult waited = collect_missing(args, result);
    result.value = number;
    if (waited != WaitResult::kDone) {
      end_early(args, result, waited, policy);
      return;
    }
    store(&line_of(args, args.common.rank, args.common.rank)->barrier, number);
    if (args.is_collective == 0) return;
    if (is_entry) compare_calls(args, state);
    if (is_entry && args.rows != 0 && state->outcome == ResultKind::kNone) plan_output(args, state);
    state->has_left = !is_entry && state->outcome != ResultKind::kNone ? 1 : 0;
  }
  if (state->completed_barriers <= args.barrier) {
    state->completed_barriers = args.barrier + 1;
    state->is_work_done = 0;
  }
  if (args.is_last != 0) finish_collective(args, state);
}

ASHLAR_ON_DEVICE void run_barrier(const BarrierArguments& args) {
  DeviceState* state = state_of(args.common);
  const BarrierAction action = decide(args);
  const bool is_later = args.is_collective != 0 && args.barrier != 0;
  const SpinPolicy policy{&board_of(args.common)->has_failed,
                          is_later ? state->began_ns : began_ns(), args.common.timeout_ns};
  const uint64_t number = 1 + load(&line_of(args, args.common.rank, args.common.rank)->barrier);
  const uint32_t peer = thread_index();
  if (peer < args.common.world_size) {
    WaitResult waited = action == BarrierAction::kSkip ? WaitResult::kSkipped : WaitResult::kDone;
    if (action == BarrierAction::kRun) waited = signal_and_wait(args, peer, number, policy);
    store(&state->missing[peer], static_cast<uint32_t>(waited));
  }
  if (add(&state->arrived_count, 1u) + 1 != thread_count()) return;
  store(&state->arrived_count, 0u);
  conclude(args, has_skipped(args) ? BarrierAction::kSkip : action, number, policy);
}

// Whether the work after the given barrier must run.
ASHLAR_ON_DEVICE bool should_run(const CommonArguments& common, uint32_t barrier) {
  const DeviceState* state = state_of(common);
  return state->is_running != 0 && state->completed_barriers == barrier + 1 &&
         state->is_work_done == 0 && state->outcome == ResultKind::kNone;
}

}  // namespace ashlar::symm::kernels
