// SPDX-License-Identifier: Apache-2.0
//
// Barriers, on their own or as part of a collective. Barriers of a collective also do what
// CollectiveRunner does on the host: the same call continues a collective that timed out, and no
// other call may start before that.
//
// Runs in one block with one thread per rank. Each thread signals one rank and waits for that rank.
// All threads choose the same action from the state that the previous kernel left. Only the
// presence of an unreported error can change during the barrier; if one thread skips the barrier
// because of an error, the barrier is skipped as a whole. The last thread completes the barrier
// (`finish_barrier`). Every rank signals every other rank, even in large groups, because the
// threads do so in parallel.
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
  kPass,    // the barrier is already complete
  kRefuse,  // another collective is unfinished
  kSkip     // an earlier error has not been reported yet, or the collective has ended early
};

ASHLAR_ON_DEVICE BarrierAction choose_action(const BarrierArguments& args) {
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

ASHLAR_ON_DEVICE void write_signature(PadLine* line, const CallWords& call) {
  store(&line->signature[0], call.code);
  store(&line->signature[1], call.bytes);
  store(&line->signature[2], call.offset_bytes);
  store(&line->signature_memory, static_cast<uint32_t>(call.memory));
}

ASHLAR_ON_DEVICE CallWords read_signature(const PadLine* line) {
  return {load(&line->signature[0]), load(&line->signature[1]), load(&line->signature[2]),
          load(&line->signature_memory)};
}

// Copies word by word: to copy the struct, clang would put all arguments on every thread's stack.
ASHLAR_ON_DEVICE CallWords signature_of(const BarrierArguments& args) {
  return {args.call.code, args.call.bytes, args.call.offset_bytes, args.call.memory};
}

// Returns the signature that this rank sends to `peer`. In an all-to-all-v, it describes the share
// for `peer`.
ASHLAR_ON_DEVICE CallWords signature_for(const BarrierArguments& args, uint32_t peer) {
  CallWords call = signature_of(args);
  if (args.rows == 0) return call;
  const RowShare* share = &host_memory<CallRecord>(args.rows)->shares[peer];
  call.bytes = load(&share->bytes);
  call.offset_bytes += load(&share->begin_bytes);
  return call;
}

ASHLAR_ON_DEVICE WaitResult signal_and_wait(const BarrierArguments& args, uint32_t peer,
                                            uint64_t number, const WaitLimits& limits) {
  const uint32_t rank = args.common.rank;
  PadLine* peer_line = line_of(args, peer, rank);
  if (args.is_collective != 0 && args.barrier == 0)
    write_signature(peer_line, signature_for(args, peer));
  if (peer == rank) return WaitResult::kDone;
  store_release(&peer_line->barrier, number);
  const PadLine* own_line = line_of(args, rank, peer);
  return wait_until([&] { return load_acquire(&own_line->barrier) >= number; }, limits);
}

// Returns kDone if all ranks have arrived. Records missing ranks in `result`.
ASHLAR_ON_DEVICE WaitResult collect_missing(const BarrierArguments& args, KernelResult& result) {
  const DeviceState* state = state_of(args.common);
  WaitResult all = WaitResult::kDone;
  ASHLAR_NO_UNROLL
  for (uint32_t peer = 0; peer < args.common.world_size; ++peer) {
    const WaitResult waited = static_cast<WaitResult>(load(&state->wait_results[peer]));
    if (waited == WaitResult::kDone) continue;
    result.missing[peer / 32] |= 1u << (peer % 32);
    if (all != WaitResult::kFailed) all = waited;
  }
  return all;
}

// Returns whether a thread has skipped the barrier.
ASHLAR_ON_DEVICE bool has_skipped(const BarrierArguments& args) {
  const DeviceState* state = state_of(args.common);
  bool is_skipped = false;
  ASHLAR_NO_UNROLL
  for (uint32_t peer = 0; peer < args.common.world_size; ++peer) {
    is_skipped = is_skipped ||
                 load(&state->wait_results[peer]) == static_cast<uint32_t>(WaitResult::kSkipped);
  }
  return is_skipped;
}

// Compares the signatures of all ranks. Except in an all-to-all-v, every rank has received the same
// signatures, so all ranks get the same result.
ASHLAR_ON_DEVICE void compare_calls(const BarrierArguments& args, DeviceState* state) {
  const bool has_rows = args.rows != 0;
  CallWords first = signature_of(args);
  if (!has_rows) first = read_signature(line_of(args, args.common.rank, 0));
  ASHLAR_NO_UNROLL
  for (uint32_t peer = 0; peer < args.common.world_size; ++peer) {
    const CallWords call_of_peer = read_signature(line_of(args, args.common.rank, peer));
    const bool agrees = has_rows
                            ? call_of_peer.code == first.code && call_of_peer.memory == first.memory
                            : is_same(call_of_peer, first);
    if (agrees) continue;
    state->outcome = ResultKind::kMismatch;
    state->outcome_rank = peer;
    state->peer_call = call_of_peer;
    state->expected_call = first;
    return;
  }
}

// Computes where the incoming rows of an all-to-all-v are written. Reads each word of a peer once,
// so that a peer cannot change a value between check and use.
ASHLAR_ON_DEVICE void plan_output(const BarrierArguments& args, DeviceState* state) {
  uint64_t to = 0;
  ASHLAR_NO_UNROLL
  for (uint32_t peer = 0; peer < args.common.world_size; ++peer) {
    const CallWords share = read_signature(line_of(args, args.common.rank, peer));
    if (share.offset_bytes > args.buffer_bytes ||
        share.bytes > args.buffer_bytes - share.offset_bytes) {
      state->outcome = ResultKind::kOutOfRange;
      state->outcome_rank = peer;
      state->peer_call = share;
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

// Ends a collective and reports its outcome. Called after the last barrier.
ASHLAR_ON_DEVICE void finish_collective(const BarrierArguments& args, DeviceState* state) {
  state->is_running = 0;
  if (args.rows != 0) report_rows(args, state);
  if (state->outcome == ResultKind::kNone) return;
  KernelResult result{};
  result.kind = state->outcome;
  result.action = KernelAction::kCollective;
  result.rank = static_cast<uint32_t>(state->outcome_rank);
  result.value = state->needed_bytes;
  result.called = state->peer_call;
  result.expected = signature_of(args);
  if (state->outcome == ResultKind::kMismatch) {
    result.expected = {load(&state->expected_call.code), load(&state->expected_call.bytes),
                       load(&state->expected_call.offset_bytes),
                       load(&state->expected_call.memory)};
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
                                WaitResult waited, const WaitLimits& limits) {
  result.kind = waited == WaitResult::kFailed ? ResultKind::kFailed : ResultKind::kTimeout;
  result.waited_ns = now_ns() - limits.began_ns;
  if (args.is_collective != 0) {
    DeviceState* state = state_of(args.common);
    state->is_running = 0;
    state->is_unfinished = waited == WaitResult::kTimeout ? 1 : 0;
    // The work before this barrier precedes the barrier in the stream, so it is done.
    state->is_work_done = 1;
    store_release(&board_of(args.common)->has_incomplete_collective, uint32_t{1});
  }
  report(args.common, result);
}

ASHLAR_ON_DEVICE void finish_barrier(const BarrierArguments& args, BarrierAction action,
                                     uint64_t number, const WaitLimits& limits) {
  DeviceState* state = state_of(args.common);
  const bool is_entry = args.is_collective != 0 && args.barrier == 0;
  KernelResult result{};
  result.action = args.is_collective != 0 ? KernelAction::kCollective : KernelAction::kBarrier;
  result.channel = args.channel;
  // A graph that is launched again uses the same record.
  if (is_entry && args.rows != 0) host_memory<CallRecord>(args.rows)->has_rows = 0;
  if (action == BarrierAction::kSkip || action == BarrierAction::kRefuse) {
    if (args.is_collective != 0 && !is_entry) return;
    state->is_running = 0;
    result.kind = action == BarrierAction::kSkip ? ResultKind::kSkipped : ResultKind::kUnfinished;
    result.called = signature_of(args);
    result.expected = state->call;
    report(args.common, result);
    return;
  }
  if (is_entry) begin_collective(args, state, limits.began_ns);
  if (action == BarrierAction::kRun) {
    const WaitResult waited = collect_missing(args, result);
    result.value = number;
    if (waited != WaitResult::kDone) {
      end_early(args, result, waited, limits);
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
  const BarrierAction action = choose_action(args);
  const bool is_later = args.is_collective != 0 && args.barrier != 0;
  const WaitLimits limits{&board_of(args.common)->has_failed,
                          is_later ? state->began_ns : began_ns(), args.common.timeout_ns};
  const uint64_t number = 1 + load(&line_of(args, args.common.rank, args.common.rank)->barrier);
  const uint32_t peer = thread_index();
  if (peer < args.common.world_size) {
    WaitResult waited = action == BarrierAction::kSkip ? WaitResult::kSkipped : WaitResult::kDone;
    if (action == BarrierAction::kRun) waited = signal_and_wait(args, peer, number, limits);
    store(&state->wait_results[peer], static_cast<uint32_t>(waited));
  }
  if (add(&state->arrived_count, 1u) + 1 != thread_count()) return;
  store(&state->arrived_count, 0u);
  finish_barrier(args, has_skipped(args) ? BarrierAction::kSkip : action, number, limits);
}

// Whether the work after the given barrier must run.
ASHLAR_ON_DEVICE bool should_run(const CommonArguments& common, uint32_t barrier) {
  const DeviceState* state = state_of(common);
  return state->is_running != 0 && state->completed_barriers == barrier + 1 &&
         state->is_work_done == 0 && state->outcome == ResultKind::kNone;
}

}  // namespace ashlar::symm::kernels
