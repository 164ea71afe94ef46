// SPDX-License-Identifier: Apache-2.0
//
// Checks arguments, and runs the signal algorithms of signal_steps.h on mapped pads. Signals to
// ranks on other machines go through the transport.
#include "symm/signals/signals.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "symm/signals/remote_pads.h"
#include "symm/signals/signal_steps.h"
#include "symm/signals/timeout_errors.h"

namespace ashlar::symm {
namespace {

constexpr std::chrono::microseconds kMinPutPollInterval(20);
constexpr std::chrono::microseconds kMaxPutPollInterval(1000);

// Checks that the rank and the channel exist. Does not check that the pad of `rank` is mapped: a
// wait uses only this rank's own words, and a signal to another machine goes through the transport.
Status check_rank_and_channel(const SignalSlots& slots, int rank, int channel) {
  if (Status wrong = slots.check_rank(rank); !wrong.ok()) return wrong;
  return slots.check_channel(channel);
}

Status check_target(const SignalSlots& slots, int target, int channel) {
  if (Status wrong = check_rank_and_channel(slots, target, channel); !wrong.ok()) return wrong;
  return slots.check_reachable(target);
}

WaitLimits wait_limits(const Limits& limits, SpinPolicy spin_policy) {
  return {.failure = limits.failure, .deadline = limits.deadline, .spin_policy = spin_policy};
}

// Returns access to the pad of `rank` through the transport, or null if the pad is mapped or
// unreachable.
RemotePads* remote_pads_to(const SignalSlots& slots, int rank) {
  RemotePads* remote = slots.remote();
  return remote != nullptr && remote->contains(rank) ? remote : nullptr;
}

// Calls `wait(words)` for a wait on this rank's own memory. If there are remote ranks, the wait
// also makes transport progress.
template <typename Wait>
WaitResult wait_in_own_memory(const SignalSlots& slots, const Wait& wait) {
  if (slots.remote() == nullptr) {
    SharedWords memory;
    return wait(memory);
  }
  PolledWords memory(slots.remote()->transport());
  const WaitResult end = wait(memory);
  memory.synchronize();
  return end;
}

// Polls, because the receiver does not notify the sender when it empties the slot.
Status put_remote(RemotePads& remote, int to, int channel, WaitLimits& waiting) {
  std::chrono::microseconds pause = kMinPutPollInterval;
  waiting.began = Deadline::Clock::now();
  for (;;) {
    const Result<bool> put = remote.try_put(to, channel, waiting.deadline);
    if (!put.ok() || *put) return put.status();
    if (waiting.failure.has_happened()) return waiting.failure.reason();
    if (waiting.deadline.has_passed()) return Status::timeout("the slot stays full");
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kMaxPutPollInterval);
  }
}

}  // namespace

Status put_signal(const SignalSlots& slots, int to, int channel, const Limits& limits) {
  if (Status wrong = check_rank_and_channel(slots, to, channel); !wrong.ok()) return wrong;
  WaitLimits waiting = wait_limits(limits, slots.spin_policy());
  if (RemotePads* remote = remote_pads_to(slots, to)) {
    const Status put = put_remote(*remote, to, channel, waiting);
    return put.is(StatusKind::kTimeout) ? put_timeout_error(slots, to, channel, waiting.waited())
                                        : put;
  }
  if (Status wrong = slots.check_reachable(to); !wrong.ok()) return wrong;
  SharedWords memory;
  switch (fill_slot(memory, slots.slot(to, channel, slots.rank()), waiting)) {
    case WaitResult::kDone: return {};
    case WaitResult::kFailed: return limits.failure.reason();
    case WaitResult::kTimeout: break;
  }
  return put_timeout_error(slots, to, channel, waiting.waited());
}

Status wait_signal(const SignalSlots& slots, int from, int channel, const Limits& limits) {
  if (Status wrong = check_rank_and_channel(slots, from, channel); !wrong.ok()) return wrong;
  WaitLimits waiting = wait_limits(limits, slots.spin_policy());
  switch (wait_in_own_memory(slots, [&](auto& memory) {
    return drain_slot(memory, slots.slot(slots.rank(), channel, from), waiting);
  })) {
    case WaitResult::kDone: return {};
    case WaitResult::kFailed: return limits.failure.reason();
    case WaitResult::kTimeout: break;
  }
  return wait_timeout_error(slots, from, channel, waiting.waited());
}

Result<bool> try_put_signal(const SignalSlots& slots, int to, int channel) {
  if (Status wrong = check_target(slots, to, channel); !wrong.ok()) return wrong;
  SharedWords memory;
  uint32_t seen = 0;
  return flip_slot(memory, slots.slot(to, channel, slots.rank()), 0, &seen);
}

Result<bool> try_wait_signal(const SignalSlots& slots, int from, int channel) {
  if (Status wrong = check_rank_and_channel(slots, from, channel); !wrong.ok()) return wrong;
  SharedWords memory;
  uint32_t seen = 0;
  return flip_slot(memory, slots.slot(slots.rank(), channel, from), 1, &seen);
}

Status add_signal(const SignalPads& pads, int to, int channel, uint64_t amount) {
  if (Status wrong = check_rank_and_channel(pads.slots(), to, channel); !wrong.ok()) return wrong;
  if (RemotePads* remote = remote_pads_to(pads.slots(), to)) {
    return remote->add_to_counter(to, channel, amount, Deadline::never());
  }
  if (Status wrong = pads.slots().check_reachable(to); !wrong.ok()) return wrong;
  SharedWords memory;
  add_to_counter(memory, pads.counter(to, channel, pads.rank()), amount);
  return {};
}

Status wait_for_value(const SignalPads& pads, int from, int channel, uint64_t value,
                      const Limits& limits) {
  if (Status wrong = check_rank_and_channel(pads.slots(), from, channel); !wrong.ok()) return wrong;
  WaitLimits waiting = wait_limits(limits, pads.spin_policy());
  const WaitWord<uint64_t> counter = pads.counter(pads.rank(), channel, from);
  switch (wait_in_own_memory(pads.slots(), [&](auto& memory) {
    return wait_for_counter(memory, counter, value, waiting);
  })) {
    case WaitResult::kDone: return {};
    case WaitResult::kFailed: return limits.failure.reason();
    case WaitResult::kTimeout: break;
  }
  return counter_timeout_error(pads, from, channel, value, waiting.waited());
}

Result<uint64_t> counter_value(const SignalPads& pads, int from, int channel) {
  if (Status wrong = check_rank_and_channel(pads.slots(), from, channel); !wrong.ok()) return wrong;
  return SharedWords::load(pads.counter(pads.rank(), channel, from).value,
                           std::memory_order_acquire);
}

}  // namespace ashlar::symm
