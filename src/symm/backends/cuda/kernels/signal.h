// SPDX-License-Identifier: Apache-2.0
//
// One signal: a slot filled or emptied, a counter added to, waited for or looked at. What the words
// mean is said in symm/signals/signals.h. One thread.
#pragma once

#include "symm/backends/cuda/kernels/waiting.h"
#include "symm/signals/pad_line.h"

namespace ashlar::symm::kernels {

// A look first, so that those who wait do not take the word from each other.
ASHLAR_ON_DEVICE bool turn_slot(uint32_t* slot, uint32_t from) {
  return load(slot) == from && compare_exchange(slot, from, 1 - from);
}

ASHLAR_ON_DEVICE Waited do_signal(const SignalArguments& what, const SpinPolicy& patience) {
  PadLine* line = device_memory<PadLine>(what.line);
  switch (what.act) {
    case Act::kPut: return wait_until([&] { return turn_slot(&line->signal, 0); }, patience);
    case Act::kWait: return wait_until([&] { return turn_slot(&line->signal, 1); }, patience);
    case Act::kAdd: (void)add(&line->counter, what.value); return Waited::kDone;
    case Act::kWaitForValue:
      return wait_until([&] { return load_acquire(&line->counter) >= what.value; }, patience);
    default: host_memory<Record>(what.own.record)->value = load_acquire(&line->counter);
  }
  return Waited::kDone;
}

ASHLAR_ON_DEVICE void run_signal(const SignalArguments& what) {
  Ending ending{};
  ending.act = what.act;
  ending.rank = what.peer;
  ending.channel = what.channel;
  ending.value = what.value;
  // Looking does nothing that could be in anybody's way.
  if (what.act != Act::kLook && is_held_up(what.own)) {
    ending.kind = End::kSkipped;
    tell(what.own, ending);
    return;
  }
  const SpinPolicy patience{&board_of(what.own)->has_failed, began_ns(), what.own.timeout_ns};
  const Waited waited = do_signal(what, patience);
  if (waited == Waited::kDone) return;
  ending.kind = waited == Waited::kFailed ? End::kFailed : End::kTimeout;
  ending.waited_ns = now_ns() - patience.began_ns;
  tell(what.own, ending);
}

}  // namespace ashlar::symm::kernels
