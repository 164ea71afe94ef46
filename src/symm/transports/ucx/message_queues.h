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
#include <set>
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
  // Call when a waiter gives up: later responses complete its calls, but the results are dropped.
  void abandon(const ResponseWaiter& waiter);
  // Erases the calls of a connection, so that later responses to them are ignored.
  void abandon(const UcxConnection& connection);
  void clear() { calls_.clear(); }

 private:
  uint64_t last_call_ = 0;
  std::map<uint64_t, PendingCall> calls_;
};

// The responses that peers have not received yet, by the endpoint to the peer.
class ResponseQueue {
 public:
  // Returns whether a call from the peer may be executed. Once too many responses to the peer are
  // unsent, returns false until all of them are sent; the first such refusal adds the endpoint to
  // those that `take_newly_rejected` returns. The caller must ignore refused calls.
  bool accepts_call(ucp_ep_h reply_to);
  // Makes `accepts_call` return false until `erase`, and drops the endpoint's completed calls.
  void reject_calls(ucp_ep_h endpoint);
  // Track the responses that were passed to UCX and whose sends have not completed.
  void add_unsent(ucp_ep_h reply_to, size_t bytes);
  void remove_unsent(ucp_ep_h reply_to, size_t bytes);

  // Posted calls that have been executed but not yet reported. Endpoints without calls stay in the
  // map, which keeps the capacity of their vectors.
  std::map<ucp_ep_h, std::vector<uint64_t>>& completed_calls() { return completed_calls_; }
  // Returns the endpoints that `accepts_call` has rejected since the last call.
  std::vector<ucp_ep_h> take_newly_rejected() { return std::exchange(newly_rejected_, {}); }

  void erase(ucp_ep_h endpoint);
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
  std::set<ucp_ep_h> closing_;  // the endpoints of reject_calls
  std::map<ucp_ep_h, std::vector<uint64_t>> completed_calls_;
  std::vector<ucp_ep_h> newly_rejected_;
};

}  // namespace ashlar::symm
