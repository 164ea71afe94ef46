// SPDX-License-Identifier: Apache-2.0
//
// Signals from one rank to another: slots that hold one signal, and monotonic counters.
//
// After a wait, the receiver sees everything the sender wrote before the signal. A wait that ends
// at its deadline returns kTimeout, with a message that names the two ranks, the time waited and
// the contents of the pad; a wait that ends because the group failed returns the reason of the
// failure. In both cases no signal was put or taken, and the call can be repeated.
//
// Thread safe. Threads that use the same slot or counter concurrently share its signals.
#pragma once

#include <cstdint>

#include "ashlar/deadline.h"
#include "ashlar/status.h"
#include "symm/core/failure.h"
#include "symm/signals/signal_pad.h"

namespace ashlar::symm {

// The conditions that end an operation early: the group's failure or the deadline.
struct Limits {
  const Failure& failure;
  Deadline deadline = Deadline::never();
};

// Fills slot (channel, this rank) in the pad of `to`. Waits until the previous signal has been
// taken.
Status put_signal(const SignalSlots& slots, int to, int channel, const Limits& limits);
// Waits until slot (channel, `from`) in this rank's pad is full, and empties it.
Status wait_signal(const SignalSlots& slots, int from, int channel, const Limits& limits);

// Like put_signal, but does not wait: returns false if the slot is still full. Returns kUnsupported
// if the pad of `to` is not mapped.
Result<bool> try_put_signal(const SignalSlots& slots, int to, int channel);
// Like wait_signal, but does not wait: returns false if the slot is still empty. Does not make
// transport progress.
Result<bool> try_wait_signal(const SignalSlots& slots, int from, int channel);

// Adds to counter (channel, this rank) in the pad of `to`. For a remote rank, blocks while the
// maximum number of posted operations to that rank are unanswered.
Status add_signal(const SignalPads& pads, int to, int channel, uint64_t amount);
// Waits until counter (channel, `from`) in this rank's pad is at least `value`. Does not change the
// counter.
Status wait_for_value(const SignalPads& pads, int from, int channel, uint64_t value,
                      const Limits& limits);
Result<uint64_t> counter_value(const SignalPads& pads, int from, int channel);

}  // namespace ashlar::symm
