// SPDX-License-Identifier: Apache-2.0
//
// Signals from one rank to another: mailboxes that hold one, and counters that only grow.
//
// What the sender wrote before it signalled is seen by the receiver once it has waited. Every wait
// ends at its deadline with kTimeout, which says who waited for whom, how long, and what the pad
// holds; or with the reason of the group's failure. Either way nothing was put or taken, and the
// same call can be made again.
//
// Any thread may call these. Two that use the same slot or counter at once share its signals.
#pragma once

#include <cstdint>

#include "ashlar/deadline.h"
#include "ashlar/status.h"
#include "symm/core/failure.h"
#include "symm/signals/signal_pad.h"

namespace ashlar::symm {

// The group's state, and by when it must be over.
struct Limits {
  const Failure& failure;
  Deadline deadline = Deadline::never();
};

// Fills slot (channel, this rank) of `to`'s pad; waits while the signal before has not been taken.
Status put_signal(const SignalSlots& slots, int to, int channel, const Limits& limits);
// Empties slot (channel, `from`) of this rank's pad; waits until it is full.
Status wait_signal(const SignalSlots& slots, int from, int channel, const Limits& limits);

// The same without waiting, by pointer only. False: the slot is still full, or still empty.
Result<bool> try_put_signal(const SignalSlots& slots, int to, int channel);
Result<bool> try_wait_signal(const SignalSlots& slots, int from, int channel);

// Adds to counter (channel, this rank) of `to`'s pad. Never waits, but for room on the way to
// another machine.
Status add_signal(const SignalPads& pads, int to, int channel, uint64_t amount);
// Until counter (channel, `from`) of this rank's pad is `value` or more; it stays as it is.
Status wait_for_value(const SignalPads& pads, int from, int channel, uint64_t value,
                      const Limits& limits);
Result<uint64_t> counter_value(const SignalPads& pads, int from, int channel);

}  // namespace ashlar::symm
