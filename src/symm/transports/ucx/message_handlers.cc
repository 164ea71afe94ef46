// SPDX-License-Identifier: Apache-2.0
//
// Handles incoming messages. Calls are checked, executed and responded to; responses complete
// pending calls. UCX invokes the handlers during progress and sends, so the mutex is held, which
// clang's thread safety analysis cannot see.
#include <cstring>

#include "base/host_memory.h"
#include "symm/core/atomic_word.h"
#include "symm/transports/transport.h"
#include "symm/transports/ucx/ucx_connection.h"
#include "symm/transports/ucx/ucx_worker.h"

namespace ashlar::symm {
namespace {

bool is_within(const Message& call, uint64_t bytes, std::span<const std::byte> region) {
  return call.offset <= region.size() && bytes <= region.size() - call.offset;
}

bool is_valid_atomic(const Message& call, std::span<const std::byte> region) {
  const bool is_word = call.word_bytes == 4 || call.word_bytes == 8;
  return is_word && is_known(static_cast<AtomicKind>(call.atomic)) &&
         is_within(call, call.word_bytes, region) &&
         reinterpret_cast<uintptr_t>(region.data() + call.offset) % call.word_bytes == 0;
}

}  // namespace

ucs_status_t UcxWorker::on_message(void* worker, const void* header, size_t header_bytes,
                                   void* data, size_t data_bytes, const ucp_am_recv_param_t* param)
    ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  Message message;
  const bool is_eager = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0;
  if (header_bytes != sizeof(message) || !is_eager || data_bytes > kMaxDataBytes) return UCS_OK;
  std::memcpy(&message, header, sizeof(message));
  if (message.magic != kUcxMessageMagic) return UCS_OK;
  const std::span<const std::byte> payload(static_cast<const std::byte*>(data), data_bytes);
  UcxWorker& receiver = *static_cast<UcxWorker*>(worker);
  // UCX, which is C, cannot pass on exceptions. If host memory is exhausted, the call gets no
  // response, and the caller's deadline ends its wait.
  catch_bad_alloc([&]() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    if (message.kind == MessageKind::kResponse) {
      receiver.handle_response_locked(message, payload);
    } else if (message.kind == MessageKind::kCompleted) {
      receiver.handle_completed_locked(payload);
    } else if ((param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0) {
      receiver.handle_call_locked(message, payload, param->reply_ep);
    }
  });
  return UCS_OK;
}

void UcxWorker::handle_call_locked(const Message& call, std::span<const std::byte> data,
                                   ucp_ep_h reply_to) {
  if (!responses_.accepts_call(reply_to)) return;
  Message response;
  response.kind = MessageKind::kResponse;
  response.call = call.call;
  response.code = ResponseCode::kInvalidCall;
  std::span<const std::byte> got;
  const auto found = regions_.find(call.region);
  if (call.kind == MessageKind::kHello) {
    response.code = ResponseCode::kOk;
  } else if (found == regions_.end()) {
    response.code = ResponseCode::kUnknownRegion;
  } else {
    const std::span<std::byte> region = found->second;
    if (call.kind == MessageKind::kPut && is_within(call, data.size(), region)) {
      std::memcpy(region.data() + call.offset, data.data(), data.size());
      response.code = ResponseCode::kOk;
    } else if (call.kind == MessageKind::kGet && call.bytes <= kMaxDataBytes &&
               is_within(call, call.bytes, region)) {
      got = region.subspan(call.offset, call.bytes);
      response.code = ResponseCode::kOk;
    } else if (call.kind == MessageKind::kAtomic && is_valid_atomic(call, region)) {
      response.operand = apply_atomic_op(region.data() + call.offset,
                                         {.kind = static_cast<AtomicKind>(call.atomic),
                                          .word_bytes = static_cast<WordBytes>(call.word_bytes),
                                          .operand = call.operand,
                                          .expected = call.expected});
      response.code = ResponseCode::kOk;
    }
  }
  // Batch only for endpoints that this side created: an endpoint that the peer created may be
  // closed before the batch is sent.
  if (call.is_posted != 0 && response.code == ResponseCode::kOk && endpoints_.contains(reply_to)) {
    return add_completed_locked(reply_to, call.call);
  }
  // If sending fails, the peer has exited and does not need a response.
  (void)send_locked(reply_to, response, got);
}

// Reports completed calls in batches, because a response to each call would cost as much as the
// call.
void UcxWorker::add_completed_locked(ucp_ep_h reply_to, uint64_t call) {
  std::vector<uint64_t>& calls = responses_.completed_calls()[reply_to];
  calls.push_back(call);
  if (calls.size() >= kMaxCompletedCalls) send_completed_locked(reply_to, calls);
}

void UcxWorker::flush_completed_locked() {
  for (auto& [reply_to, calls] : responses_.completed_calls()) {
    if (!calls.empty()) send_completed_locked(reply_to, calls);
  }
}

void UcxWorker::send_completed_locked(ucp_ep_h reply_to, std::vector<uint64_t>& calls) {
  Message message;
  message.kind = MessageKind::kCompleted;
  std::vector<uint64_t> sent;  // separate, because sending to this process may add to `calls`
  sent.swap(calls);
  // If sending throws, because host memory is exhausted, the calls are reported later.
  ScopeGuard undo([&] { sent.swap(calls); });
  (void)send_locked(reply_to, message, std::as_bytes(std::span(sent)));
  undo.dismiss();
  sent.clear();
  if (calls.empty()) calls.swap(sent);  // keeps the capacity
}

// If the endpoint belongs to a connection of this process, fails the connection, which reports the
// reason to its group. Does nothing if the peer created the endpoint, or if the connection is
// closed. The endpoint then stays open (UcxConnection::close says why), and calls from the peer are
// ignored until it has read its responses.
void UcxWorker::fail_connection_locked(ucp_ep_h endpoint, const char* why)
    ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  const auto own = endpoints_.find(endpoint);
  if (own != endpoints_.end()) own->second->fail_locked(why);
}

// The connection of the endpoint may have been destroyed, so the handler's argument is the worker.
void UcxWorker::on_error(void* worker, ucp_ep_h endpoint, ucs_status_t status)
    ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  static_cast<UcxWorker*>(worker)->fail_connection_locked(endpoint, ::ucs_status_string(status));
}

// The connection's functions require the mutex of the connection's worker. That worker is this one,
// so the mutex is held.
void UcxWorker::handle_response_locked(const Message& response, std::span<const std::byte> data)
    ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  const PendingCall* found = pending_calls_.find(response.call);
  if (found == nullptr) return;  // the call was abandoned
  const PendingCall pending = *found;
  pending_calls_.erase(response.call);
  const bool fits = response.code != ResponseCode::kOk || data.size() == pending.into.size();
  const ResponseCode code = fits ? response.code : ResponseCode::kInvalidCall;
  if (code == ResponseCode::kOk) std::copy(data.begin(), data.end(), pending.into.begin());
  if (pending.is_posted) {
    pending.connection->complete_posted_locked(response.call, code);
  } else {
    pending.connection->complete_fetch_locked();
  }
  if (pending.waiter != nullptr) {
    pending.waiter->value = response.operand;
    if (pending.waiter->code == ResponseCode::kOk) pending.waiter->code = code;
    --pending.waiter->pending_count;
  }
  changed.notify_all();
}

void UcxWorker::handle_completed_locked(std::span<const std::byte> data)
    ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  for (; data.size() >= sizeof(uint64_t); data = data.subspan(sizeof(uint64_t))) {
    uint64_t call = 0;
    std::memcpy(&call, data.data(), sizeof(call));
    const PendingCall* found = pending_calls_.find(call);
    if (found == nullptr || !found->is_posted) continue;
    UcxConnection* connection = found->connection;
    pending_calls_.erase(call);
    connection->complete_posted_locked(call, ResponseCode::kOk);
  }
  changed.notify_all();
}

void UcxWorker::on_sent(void* request, ucs_status_t, void* buffer)
    ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  SendBuffer& sent = *static_cast<SendBuffer*>(buffer);
  ::ucp_request_free(request);
  sent.worker->release_buffer_locked(sent);
}

void UcxWorker::release_buffer_locked(SendBuffer& buffer) {
  responses_.remove_unsent(buffer.reply_to, buffer.data.size());
  send_buffers_.release(buffer);
}

}  // namespace ashlar::symm
