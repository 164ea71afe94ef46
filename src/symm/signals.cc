// Signals: arguments checked, then the steps of steps.h over the machine's memory.
#include "symm/signals.h"

#include "base/text.h"
#include "symm/steps.h"

namespace ashlar::symm {
namespace {

// Of a wait: the words are this rank's own, whether or not it reaches the source by pointer.
Status check_source(const Slots& slots, int source, int channel) {
  if (Status wrong = slots.check_rank(source); !wrong.ok()) return wrong;
  return slots.check_channel(channel);
}

Status check_target(const Slots& slots, int target, int channel) {
  if (Status wrong = check_source(slots, target, channel); !wrong.ok()) return wrong;
  return slots.check_reachable(target);
}

WaitLimits within(const Limits& limits, Patience patience) {
  return {.failure = limits.failure, .deadline = limits.deadline, .patience = patience};
}

}  // namespace

Status put_signal(const Slots& slots, int to, int channel, const Limits& limits) {
  if (Status wrong = check_target(slots, to, channel); !wrong.ok()) return wrong;
  SharedMemory memory;
  WaitLimits waiting = within(limits, slots.patience());
  switch (put_in_slot(memory, slots.slot(to, channel, slots.rank()), waiting)) {
    case WaitEnd::kDone: return {};
    case WaitEnd::kFailed: return limits.failure.reason();
    case WaitEnd::kTimeout: break;
  }
  return Status::timeout(text("rank ", slots.rank(), " waited ", seconds_text(waiting.waited()),
                              " to signal rank ", to, " on channel ", channel,
                              ", which has not taken the signal before; ",
                              describe_slots(slots, channel)));
}

Status wait_signal(const Slots& slots, int from, int channel, const Limits& limits) {
  if (Status wrong = check_source(slots, from, channel); !wrong.ok()) return wrong;
  SharedMemory memory;
  WaitLimits waiting = within(limits, slots.patience());
  switch (take_from_slot(memory, slots.slot(slots.rank(), channel, from), waiting)) {
    case WaitEnd::kDone: return {};
    case WaitEnd::kFailed: return limits.failure.reason();
    case WaitEnd::kTimeout: break;
  }
  return Status::timeout(text("rank ", slots.rank(), " waited ", seconds_text(waiting.waited()),
                              " for a signal from rank ", from, " on channel ", channel, "; ",
                              describe_slots(slots, channel)));
}

Result<bool> try_put_signal(const Slots& slots, int to, int channel) {
  if (Status wrong = check_target(slots, to, channel); !wrong.ok()) return wrong;
  SharedMemory memory;
  uint32_t seen = 0;
  return exchange_slot(memory, slots.slot(to, channel, slots.rank()), 0, &seen);
}

Result<bool> try_wait_signal(const Slots& slots, int from, int channel) {
  if (Status wrong = check_source(slots, from, channel); !wrong.ok()) return wrong;
  SharedMemory memory;
  uint32_t seen = 0;
  return exchange_slot(memory, slots.slot(slots.rank(), channel, from), 1, &seen);
}

Status add_signal(const Pads& pads, int to, int channel, uint64_t amount) {
  if (Status wrong = check_target(pads.slots(), to, channel); !wrong.ok()) return wrong;
  SharedMemory memory;
  add_to_counter(memory, pads.counter(to, channel, pads.rank()), amount);
  return {};
}

Status wait_for_value(const Pads& pads, int from, int channel, uint64_t value,
                      const Limits& limits) {
  if (Status wrong = check_source(pads.slots(), from, channel); !wrong.ok()) return wrong;
  SharedMemory memory;
  WaitLimits waiting = within(limits, pads.patience());
  const Watched<uint64_t> counter = pads.counter(pads.rank(), channel, from);
  switch (wait_for_counter(memory, counter, value, waiting)) {
    case WaitEnd::kDone: return {};
    case WaitEnd::kFailed: return limits.failure.reason();
    case WaitEnd::kTimeout: break;
  }
  return Status::timeout(text(
      "rank ", pads.rank(), " waited ", seconds_text(waiting.waited()), " for rank ", from,
      " to count to ", value, " on channel ", channel, ", which is at ",
      memory.load(counter.value, std::memory_order_relaxed), "; ", describe_pad(pads, channel)));
}

Result<uint64_t> counter_value(const Pads& pads, int from, int channel) {
  if (Status wrong = check_source(pads.slots(), from, channel); !wrong.ok()) return wrong;
  return SharedMemory::load(pads.counter(pads.rank(), channel, from).value,
                            std::memory_order_acquire);
}

}  // namespace ashlar::symm
