// SPDX-License-Identifier: Apache-2.0
//
// Signals and counters (see symm/signals/signals.h). Runs in one thread.
#pragma once

#include "symm/backends/cuda/kernels/wait.h"
#include "symm/signals/pad_line.h"

namespace ashlar::symm::kernels {

// Changes a slot from `from`, 0 or 1, to the other value; returns false if the slot has another
// value. Loads before the compare-and-swap, so that waiting ranks do not contend for the word.
ASHLAR_ON_DEVICE bool flip_slot(uint32_t* slot, uint32_t from) {
  return load(slot) == from && compare_exchange(slot, from, 1 - from);
}

ASHLAR_ON_DEVICE WaitResult perform_signal(const SignalArguments& args, const WaitLimits& limits) {
  PadLine* line = device_memory<PadLine>(args.line);
  switch (args.action) {
    case KernelAction::kPut: return wait_until([&] { return flip_slot(&line->signal, 0); }, limits);
    case KernelAction::kWait:
      return wait_until([&] { return flip_slot(&line->signal, 1); }, limits);
    case KernelAction::kAdd: (void)add(&line->counter, args.value); return WaitResult::kDone;
    case KernelAction::kWaitForValue:
      return wait_until([&] { return load_acquire(&line->counter) >= args.value; }, limits);
    default: host_memory<CallRecord>(args.common.record)->value = load_acquire(&line->counter);
  }
  return WaitResult::kDone;
}

ASHLAR_ON_DEVICE void run_signal(const SignalArguments& args) {
  KernelResult result{};
  result.action = args.action;
  result.rank = args.peer;
  result.channel = args.channel;
  result.value = args.value;
  // Reading a counter has no side effects, so it is allowed after an error.
  if (args.action != KernelAction::kReadCounter && has_unreported_error(args.common)) {
    result.kind = ResultKind::kSkipped;
    report(args.common, result);
    return;
  }
  const WaitLimits limits{&board_of(args.common)->has_failed, began_ns(), args.common.timeout_ns};
  const WaitResult waited = perform_signal(args, limits);
  if (waited == WaitResult::kDone) return;
  result.kind = waited == WaitResult::kFailed ? ResultKind::kFailed : ResultKind::kTimeout;
  result.waited_ns = now_ns() - limits.began_ns;
  report(args.common, result);
}

}  // namespace ashlar::symm::kernels
