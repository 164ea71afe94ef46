// SPDX-License-Identifier: Apache-2.0
//
// The queues of a UCX worker: buffers of messages being sent, calls that await a response, and
// responses that peers have not read. Not thread safe; guarded by the worker's mutex.
#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "symm/transports/ucx/message.h"

namespace ashlar::symm {

class UcxConnection;
class UcxWorker;

// A message and its data, which UCX may read until the send completes.
struct SendBuffer {
  UcxWorker* worker = nullptr;
  Message message{};
  std::vector<std::byte> data{};
  ucp_ep_h reply_to = nullptr;  // the receiver of a response; null for a call
  std::list<std::unique_ptr<SendBuffer>>::iterator
      position{};  // the position in a list of SendBuffers
};

// The send buffers in flight, and idle send buffers for reuse.
class SendBuffers {
 public:
  // Returns a buffer, which counts as in flight until `release`.
  SendBuffer& acquire();
  void release(SendBuffer& buffer);
  void clear();

  bool has_in_flight() const { return !in_flight_.empty(); }
  // The size of the headers and data of all messages in flight.
  size_t in_flight_bytes() const;

 private:
  std::list<std::unique_ptr<SendBuffer>> in_flight_;
  std::list<std::unique_ptr<SendBuffer>> idle_;
};

// Collects the responses to the calls of one operation. Lives on the stack of the thread that
// waits.
struct ResponseWaiter {
  size_t pending_count = 0;
  uint64_t value = 0;                     // the value in the last response
  ResponseCode code = ResponseCode::kOk;  // the first code that is not kOk
};

// A call that awaits a response.
struct PendingCall {
  UcxConnection* connection = nullptr;
  bool is_posted = false;  // a hello, put or posted atomic, whose response only `quiet` awaits
  ResponseWaiter* waiter = nullptr;  // null if posted, or if the waiting thread gave up
  std::span<std::byte> into{};       // receives the data of a get
};

class PendingCalls {
 public:
  // Returns the number that identifies the call in messages.
  uint64_t add(const PendingCall& call);
  // Returns the call with that number, or null if there is none.
  const PendingCall* find(uint64_t call) const;
  void erase(uint64_t call) { calls_.erase(call); }
  // Discard the results of later responses to the calls of a waiter, or the whole responses to the
  // calls of a connection.
  void abandon(const ResponseWaiter& waiter);
  void abandon(const UcxConnection& connection);
  void clear() { calls_.clear(); }

 private:
  uint64_t last_call_ = 0;
  std::map<uint64_t, PendingCall> calls_;
};

// The responses that peers have not received yet, by the endpoint to the peer.
class ResponseQueue {
 public:
  // Returns whether a call from the peer may be executed. Returns false once too many responses to
  // the peer are unsent, and from then on, even if they are sent later. On the first refusal,
  // queues the endpoint for disconnection. The caller must ignore refused calls.
  bool accepts_call(ucp_ep_h reply_to);
  // Track the responses that were passed to UCX and whose sends have not completed.
  void add_unsent(ucp_ep_h reply_to, size_t bytes);
  void remove_unsent(ucp_ep_h reply_to, size_t bytes);

  // Posted calls that have been executed but not yet reported. Endpoints without calls stay in the
  // map, which keeps the capacity of their vectors.
  std::map<ucp_ep_h, std::vector<uint64_t>>& completed_calls() { return completed_calls_; }
  std::vector<ucp_ep_h> take_endpoints_to_disconnect() { return std::exchange(to_disconnect_, {}); }

  void erase(ucp_ep_h endpoint);
  void erase_unsent(ucp_ep_h endpoint) { unsent_.erase(endpoint); }
  // Drops everything except the counts of unsent responses, whose sends complete while the UCX
  // worker is destroyed. Called before the worker is destroyed.
  void clear_queued();

 private:
  struct UnsentResponses {
    size_t count = 0;
    size_t bytes = 0;
    bool is_rejected = false;
  };

  std::map<ucp_ep_h, UnsentResponses> unsent_;
  std::map<ucp_ep_h, std::vector<uint64_t>> completed_calls_;
  std::vector<ucp_ep_h> to_disconnect_;
};

}  // namespace ashlar::symm
