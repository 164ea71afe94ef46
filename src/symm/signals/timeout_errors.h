// SPDX-License-Identifier: Apache-2.0
//
// Error messages for waits that timed out: the ranks involved, the time waited and the contents of
// the pad. Used for waits of host threads and of device kernels.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "ashlar/status.h"
#include "symm/signals/signal_pad.h"

namespace ashlar::symm {

Status put_timeout_error(const SignalSlots& slots, int to, int channel,
                         std::chrono::nanoseconds waited);
Status wait_timeout_error(const SignalSlots& slots, int from, int channel,
                          std::chrono::nanoseconds waited);
Status counter_timeout_error(const SignalPads& pads, int from, int channel, uint64_t value,
                             std::chrono::nanoseconds waited);
// `missing` are the ranks that have not arrived; empty if the last rank arrived after the timeout.
Status barrier_timeout_error(const SignalPads& pads, int channel, std::span<const int> missing,
                             std::chrono::nanoseconds waited);

// Returns the number of the barrier on this channel that this rank is in or enters next.
uint64_t next_barrier_number(const SignalPads& pads, int channel);

}  // namespace ashlar::symm
