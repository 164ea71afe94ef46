// SPDX-License-Identifier: Apache-2.0
//
// Writes and reads pad lines through the transport.
#include "symm/signals/remote_pads.h"

#include <cstddef>

namespace ashlar::symm {
namespace {

AtomicOp make_add_op(uint64_t offset, WordBytes word, uint64_t amount) {
  AtomicOp op;
  op.kind = AtomicKind::kAdd;
  op.word_bytes = word;
  op.offset = offset;
  op.operand = amount;
  return op;
}

}  // namespace

Status RemotePads::add_to_counter(int to, int channel, uint64_t amount, Deadline deadline) {
  const uint64_t at = own_line(channel) + offsetof(PadLine, counter);
  return pads_.post(to, make_add_op(at, WordBytes::k8, amount), deadline);
}

// Only this rank fills the slot and only the receiver empties it, so a slot that was read as empty
// stays empty until this rank fills it. A compare-and-swap would need only one operation instead of
// a read and an addition, but after a timeout this rank could not know whether it took place.
Result<bool> RemotePads::try_put(int to, int channel, Deadline deadline) {
  if (!slot_mutex_.try_lock_until(deadline))
    return TimedMutex::timeout_error("a signal to another machine");
  const TimedLock lock(slot_mutex_);
  if (Status announced = pads_.quiet(to, deadline); !announced.ok()) return announced;
  const uint64_t at = own_line(channel) + offsetof(PadLine, signal);
  const Result<uint64_t> seen = pads_.fetch(to, make_add_op(at, WordBytes::k4, 0), deadline);
  if (!seen.ok()) return seen.status();
  if (*seen != 0) return false;
  if (Status put = pads_.post(to, make_add_op(at, WordBytes::k4, 1), deadline); !put.ok())
    return put;
  return true;
}

Status RemotePads::announce(int to, int channel, uint64_t number, Deadline deadline) {
  uint64_t& announced = announced_[index(channel, to)];
  if (announced >= number) return {};
  const uint64_t at = own_line(channel) + offsetof(PadLine, barrier);
  Status added = pads_.post(to, make_add_op(at, WordBytes::k8, number - announced), deadline);
  if (added.ok()) announced = number;
  return added;
}

Status RemotePads::put_signature(int to, int channel, const PadLine& line, Deadline deadline) {
  const auto put = [&](size_t offset, std::span<const std::byte> from) {
    return pads_.put(to, own_line(channel) + offset, from, deadline);
  };
  Status done = put(offsetof(PadLine, signature), std::as_bytes(std::span(line.signature)));
  if (!done.ok()) return done;
  return put(offsetof(PadLine, signature_memory),
             std::as_bytes(std::span(&line.signature_memory, 1)));
}

Result<uint64_t> RemotePads::fetch_barrier(int owner, int channel, int source, Deadline deadline) {
  const uint64_t at = line(channel, source) + offsetof(PadLine, barrier);
  return pads_.fetch(owner, make_add_op(at, WordBytes::k8, 0), deadline);
}

Result<uint32_t> RemotePads::fetch_leader_arrival(int leader, int channel, Deadline deadline) {
  const uint64_t at = line(channel, leader) + offsetof(PadLine, barrier_sleepers);
  const Result<uint64_t> seen = pads_.fetch(leader, make_add_op(at, WordBytes::k4, 0), deadline);
  if (!seen.ok()) return seen.status();
  return static_cast<uint32_t>(*seen);
}

}  // namespace ashlar::symm
