// SPDX-License-Identifier: Apache-2.0
//
// Formats the messages from the values in the pad.
#include "symm/signals/timeout_errors.h"

#include "base/text.h"

namespace ashlar::symm {

Status put_timeout_error(const SignalSlots& slots, int to, int channel,
                         std::chrono::nanoseconds waited) {
  return Status::timeout(text("rank ", slots.rank(), " waited ", seconds_text(waited),
                              " to signal rank ", to, " on channel ", channel,
                              ", which has not taken the previous signal; ",
                              describe_slots(slots, channel)));
}

Status wait_timeout_error(const SignalSlots& slots, int from, int channel,
                          std::chrono::nanoseconds waited) {
  return Status::timeout(text("rank ", slots.rank(), " waited ", seconds_text(waited),
                              " for a signal from rank ", from, " on channel ", channel, "; ",
                              describe_slots(slots, channel)));
}

Status counter_timeout_error(const SignalPads& pads, int from, int channel, uint64_t value,
                             std::chrono::nanoseconds waited) {
  const uint64_t* counter = pads.counter(pads.rank(), channel, from).value;
  return Status::timeout(text(
      "rank ", pads.rank(), " waited ", seconds_text(waited), " for rank ", from, " to count to ",
      value, " on channel ", channel, ", which is at ",
      SharedWords::load(counter, std::memory_order_relaxed), "; ", describe_pad(pads, channel)));
}

Status barrier_timeout_error(const SignalPads& pads, int channel, std::span<const int> missing,
                             std::chrono::nanoseconds waited) {
  const std::string awaited =
      missing.empty() ? "ranks that have arrived in the meantime" : name_ranks(missing);
  return Status::timeout(text("rank ", pads.rank(), " waited ", seconds_text(waited),
                              " in barrier ", next_barrier_number(pads, channel), " of channel ",
                              channel, " for ", awaited, "; ", describe_pad(pads, channel)));
}

uint64_t next_barrier_number(const SignalPads& pads, int channel) {
  return 1 + SharedWords::load(pads.barrier(pads.rank(), channel, pads.rank()).value,
                               std::memory_order_relaxed);
}

}  // namespace ashlar::symm
