// SPDX-License-Identifier: Apache-2.0
//
// Sentences.
#include "symm/signals/timeout_errors.h"

#include "base/text.h"

namespace ashlar::symm {

Status late_put(const Slots& slots, int to, int channel, std::chrono::nanoseconds waited) {
  return Status::timeout(text("rank ", slots.rank(), " waited ", seconds_text(waited),
                              " to signal rank ", to, " on channel ", channel,
                              ", which has not taken the signal before; ",
                              describe_slots(slots, channel)));
}

Status late_wait(const Slots& slots, int from, int channel, std::chrono::nanoseconds waited) {
  return Status::timeout(text("rank ", slots.rank(), " waited ", seconds_text(waited),
                              " for a signal from rank ", from, " on channel ", channel, "; ",
                              describe_slots(slots, channel)));
}

Status late_value(const Pads& pads, int from, int channel, uint64_t value,
                  std::chrono::nanoseconds waited) {
  const uint64_t* counter = pads.counter(pads.rank(), channel, from).value;
  return Status::timeout(text(
      "rank ", pads.rank(), " waited ", seconds_text(waited), " for rank ", from, " to count to ",
      value, " on channel ", channel, ", which is at ",
      SharedMemory::load(counter, std::memory_order_relaxed), "; ", describe_pad(pads, channel)));
}

Status late_barrier(const Pads& pads, int channel, std::span<const int> absent,
                    std::chrono::nanoseconds waited) {
  const std::string whom = absent.empty() ? "others that are there now" : name_ranks(absent);
  return Status::timeout(text("rank ", pads.rank(), " waited ", seconds_text(waited),
                              " in barrier ", number_of_next_barrier(pads, channel), " of channel ",
                              channel, " for ", whom, "; ", describe_pad(pads, channel)));
}

uint64_t number_of_next_barrier(const Pads& pads, int channel) {
  return 1 + SharedMemory::load(pads.barrier(pads.rank(), channel, pads.rank()).value,
                                std::memory_order_relaxed);
}

}  // namespace ashlar::symm
