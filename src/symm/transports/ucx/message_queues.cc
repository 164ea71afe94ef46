// SPDX-License-Identifier: Apache-2.0
//
// Implements the queues, without calls to UCX.
#include "symm/transports/ucx/message_queues.h"

namespace ashlar::symm {
namespace {

constexpr size_t kMaxIdleBuffers = 128;  // buffers have up to 64 KiB each
// Limits for the responses that a peer has not read. They exceed what a well-behaved connection has
// in flight: 128 gets of 64 KiB or fetching atomics, and 128 puts or posted atomics.
constexpr size_t kMaxUnsentBytes = size_t{32} << 20;
constexpr size_t kMaxUnsentResponses = 8192;

}  // namespace

SendBuffer& SendBuffers::acquire() {
  if (idle_.empty()) {
    idle_.push_back(std::make_unique<SendBuffer>());
    idle_.back()->position = idle_.begin();
  }
  SendBuffer& buffer = *idle_.back();
  in_flight_.splice(in_flight_.end(), idle_, buffer.position);
  return buffer;
}

void SendBuffers::release(SendBuffer& buffer) {
  idle_.splice(idle_.end(), in_flight_, buffer.position);
  if (idle_.size() > kMaxIdleBuffers) idle_.pop_back();
}

void SendBuffers::clear() {
  in_flight_.clear();
  idle_.clear();
}

size_t SendBuffers::in_flight_bytes() const {
  size_t bytes = 0;
  for (const auto& each : in_flight_) bytes += sizeof(Message) + each->data.size();
  return bytes;
}

uint64_t PendingCalls::add(const PendingCall& call) {
  calls_[++last_call_] = call;
  return last_call_;
}

const PendingCall* PendingCalls::find(uint64_t call) const {
  const auto found = calls_.find(call);
  return found == calls_.end() ? nullptr : &found->second;
}

void PendingCalls::abandon(const ResponseWaiter& waiter) {
  for (auto& [number, call] : calls_) {
    if (call.waiter != &waiter) continue;
    call.waiter = nullptr;
    call.into = {};
  }
}

void PendingCalls::abandon(const UcxConnection& connection) {
  std::erase_if(calls_, [&](const auto& each) { return each.second.connection == &connection; });
}

bool ResponseQueue::accepts_call(ucp_ep_h reply_to) {
  if (closing_.contains(reply_to)) return false;
  const auto found = unsent_.find(reply_to);
  if (found == unsent_.end()) return true;
  UnsentResponses& unsent = found->second;
  if (!unsent.is_rejected &&
      (unsent.count >= kMaxUnsentResponses || unsent.bytes >= kMaxUnsentBytes)) {
    unsent.is_rejected = true;
    newly_rejected_.push_back(reply_to);
  }
  return !unsent.is_rejected;
}

void ResponseQueue::reject_calls(ucp_ep_h endpoint) {
  closing_.insert(endpoint);
  completed_calls_.erase(endpoint);
}

void ResponseQueue::add_unsent(ucp_ep_h reply_to, size_t bytes) {
  UnsentResponses& unsent = unsent_[reply_to];
  ++unsent.count;
  unsent.bytes += bytes;
}

void ResponseQueue::remove_unsent(ucp_ep_h reply_to, size_t bytes) {
  const auto found = unsent_.find(reply_to);
  if (found == unsent_.end()) return;
  UnsentResponses& unsent = found->second;
  --unsent.count;
  unsent.bytes -= bytes;
  if (unsent.count == 0) unsent_.erase(found);
}

void ResponseQueue::erase(ucp_ep_h endpoint) {
  closing_.erase(endpoint);
  unsent_.erase(endpoint);
  completed_calls_.erase(endpoint);
}

void ResponseQueue::clear_queued() {
  completed_calls_.clear();
  newly_rejected_.clear();
}

}  // namespace ashlar::symm
