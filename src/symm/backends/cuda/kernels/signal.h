// SPDX-License-Identifier: Apache-2.0
//
// Signals and counters (see symm/signals/signals.h). Runs in one thread.
#pragma once

#include "symm/backends/cuda/kernels/wait.h"
#include "symm/signals/pad_line.h"

namespace ashlar::symm::kernels {

// Loads before the compare-and-swap, so that waiting ranks do not contend for the word.
ASHLAR_ON_DEVICE bool flip_slot(uint32_t* slot, uint32_t from) {
  return load(slot) == from && compare_exchange(slot, from, 1 - from);
}

ASHLAR_ON_DEVICE WaitResult perform_signal(const SignalArguments& args, const SpinPolicy& policy) {
  PadLine* line = device_memory<PadLine>(args.line);
  switch (args.action) {
    case KernelAction::kPut: return wait_until([&] { return flip_slot(&line->signal, 0); }, policy);
    case KernelAction::kWait:
      return wait_until([&] { return flip_slot(&line->signal, 1); }, policy);
    case KernelAction::kAdd: (void)add(&line->counter, args.value); return WaitResult::kDone;
    case KernelAction::kWaitForValue:
      return wait_until([&] { return load_acquire(&line->counter) >= args.value; }, policy);
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
  const SpinPolicy policy{&board_of(args.common)->has_failed, began_ns(), args.common.timeout_ns};
  const WaitResult waited = perform_signal(args, policy);
  if (waited == WaitResult::kDone) return;
  result.kind = waited == WaitResult::kFailed ? ResultKind::kFailed : ResultKind::kTimeout;
  result.waited_ns = now_ns() - policy.began_ns;
  report(args.common, result);
}

}  // namespace ashlar::symm::kernels
