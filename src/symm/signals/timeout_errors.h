// SPDX-License-Identifier: Apache-2.0
//
// What is said of a wait that did not end in time: who waited for whom, how long, and what the pad
// holds. The same whoever waited, a thread of the host or a kernel.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "ashlar/status.h"
#include "symm/signals/signal_pad.h"

namespace ashlar::symm {

Status put_timeout(const SignalSlots& slots, int to, int channel, std::chrono::nanoseconds waited);
Status wait_timeout(const SignalSlots& slots, int from, int channel,
                    std::chrono::nanoseconds waited);
Status counter_timeout(const SignalPads& pads, int from, int channel, uint64_t value,
                       std::chrono::nanoseconds waited);
// `absent`: those who had not come; none: the last one came while that was being found out.
Status barrier_timeout(const SignalPads& pads, int channel, std::span<const int> absent,
                       std::chrono::nanoseconds waited);

// Of the channel's barriers, the one that this rank is in, or comes to next.
uint64_t next_barrier_number(const SignalPads& pads, int channel);

}  // namespace ashlar::symm
