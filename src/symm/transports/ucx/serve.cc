// SPDX-License-Identifier: Apache-2.0
//
// What arrives: calls, which are checked, done and answered, and answers. UCX calls these from
// progress, and so does whoever holds the mutex: clang cannot know.
#include <cstring>

#include "symm/core/atomic_word.h"
#include "symm/transports/transport.h"
#include "symm/transports/ucx/ucx_connection.h"
#include "symm/transports/ucx/ucx_worker.h"

namespace ashlar::symm {
namespace {

// An honest connection has 128 gets of 64 KiB and as many puts on its way at most, and one more
// call for each thread.
constexpr size_t kMostOwedBytes = size_t{32} << 20;
constexpr size_t kMostOwedAnswers = 8192;
constexpr size_t kMostIdle = 128;  // messages of 64 KiB at most

bool is_within(const Message& call, uint64_t bytes, std::span<const std::byte> region) {
  return call.offset <= region.size() && bytes <= region.size() - call.offset;
}

bool is_good_atomic(const Message& call, std::span<const std::byte> region) {
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
  const bool is_here = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0;
  if (header_bytes != sizeof(message) || !is_here || data_bytes > kMostDataBytes) return UCS_OK;
  std::memcpy(&message, header, sizeof(message));
  if (message.magic != kMessageMagic) return UCS_OK;
  const std::span<const std::byte> with(static_cast<const std::byte*>(data), data_bytes);
  if (message.kind == MessageKind::kAnswer) {
    static_cast<UcxWorker*>(worker)->take_answer_locked(message, with);
  } else if (message.kind == MessageKind::kDone) {
    static_cast<UcxWorker*>(worker)->take_done_locked(with);
  } else if ((param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0) {
    static_cast<UcxWorker*>(worker)->serve_locked(message, with, param->reply_ep);
  }
  return UCS_OK;
}

void UcxWorker::serve_locked(const Message& call, std::span<const std::byte> data,
                             ucp_ep_h reply_to) {
  if (!may_answer_locked(reply_to)) return;
  Message answer;
  answer.kind = MessageKind::kAnswer;
  answer.call = call.call;
  answer.outcome = Outcome::kBadCall;
  std::span<const std::byte> got;
  const auto found = regions_.find(call.region);
  if (call.kind == MessageKind::kHello) {
    answer.outcome = Outcome::kDone;
  } else if (found == regions_.end()) {
    answer.outcome = Outcome::kNoRegion;
  } else {
    const std::span<std::byte> region = found->second;
    if (call.kind == MessageKind::kPut && is_within(call, data.size(), region)) {
      std::memcpy(region.data() + call.offset, data.data(), data.size());
      answer.outcome = Outcome::kDone;
    } else if (call.kind == MessageKind::kGet && call.bytes <= kMostDataBytes &&
               is_within(call, call.bytes, region)) {
      got = region.subspan(call.offset, call.bytes);
      answer.outcome = Outcome::kDone;
    } else if (call.kind == MessageKind::kAtomic && is_good_atomic(call, region)) {
      answer.operand = apply_atomic_op(region.data() + call.offset,
                                       {.kind = static_cast<AtomicKind>(call.atomic),
                                        .word = static_cast<WordBytes>(call.word_bytes),
                                        .operand = call.operand,
                                        .expected = call.expected});
      answer.outcome = Outcome::kDone;
    }
  }
  // An endpoint that only the other side made may be gone when UCX returns.
  if (call.is_posted != 0 && answer.outcome == Outcome::kDone && endpoints_.contains(reply_to)) {
    return note_done_locked(reply_to, call.call);
  }
  // One that cannot be told has gone, and its own calls with it.
  (void)send_locked(reply_to, answer, got);
}

// What came together is answered together: an answer to each would cost as much as the calls.
void UcxWorker::note_done_locked(ucp_ep_h reply_to, uint64_t call) {
  std::vector<uint64_t>& calls = done_[reply_to];
  calls.push_back(call);
  if (calls.size() >= kMostDone) tell_done_locked(reply_to, calls);
}

void UcxWorker::tell_done_locked() {
  for (auto& [reply_to, calls] : done_) {
    if (!calls.empty()) tell_done_locked(reply_to, calls);
  }
}

void UcxWorker::tell_done_locked(ucp_ep_h reply_to, std::vector<uint64_t>& calls) {
  Message message;
  message.kind = MessageKind::kDone;
  std::vector<uint64_t> told;  // what one sends to oneself is read meanwhile
  told.swap(calls);
  (void)send_locked(reply_to, message, std::as_bytes(std::span(told)));
  told.clear();
  if (calls.empty()) calls.swap(told);
}

bool UcxWorker::may_answer_locked(ucp_ep_h reply_to) {
  const auto found = owed_.find(reply_to);
  if (found == owed_.end()) return true;
  Owed& owed = found->second;
  if (!owed.is_cut && (owed.count >= kMostOwedAnswers || owed.bytes >= kMostOwedBytes)) {
    owed.is_cut = true;
    to_cut_.push_back(reply_to);
  }
  return !owed.is_cut;
}

// A connection of our own is lost, and its group hears why; what it was owed goes with it. One that
// only the other side made is closed. Where UCX refuses that, nothing more is done for it.
void UcxWorker::cut_off_locked(ucp_ep_h endpoint)
    ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  if (const auto own = endpoints_.find(endpoint); own != endpoints_.end()) {
    own->second->lose_locked("it asks, and does not read the answers");
    return;
  }
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  param.cb.send = [](void* request, ucs_status_t, void*) { ::ucp_request_free(request); };
  const ucs_status_ptr_t closing = ::ucp_ep_close_nbx(endpoint, &param);
  if (UCS_PTR_IS_ERR(closing)) return;
  owed_.erase(endpoint);
}

// The mutex that the connection wants is this one's, too.
void UcxWorker::take_answer_locked(const Message& answer, std::span<const std::byte> data)
    ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  const auto found = awaited_.find(answer.call);
  if (found == awaited_.end()) return;  // nobody waits for it any more
  const Awaited awaited = found->second;
  awaited_.erase(found);
  const bool fits = answer.outcome != Outcome::kDone || data.size() == awaited.into.size();
  const Outcome outcome = fits ? answer.outcome : Outcome::kBadCall;
  if (outcome == Outcome::kDone) std::copy(data.begin(), data.end(), awaited.into.begin());
  if (awaited.is_put) {
    awaited.connection->note_answer_locked(answer.call, outcome);
  } else {
    awaited.connection->note_fetched_locked();
  }
  if (awaited.waiter != nullptr) {
    awaited.waiter->answer = answer.operand;
    if (awaited.waiter->outcome == Outcome::kDone) awaited.waiter->outcome = outcome;
    --awaited.waiter->left_count;
  }
  changed.notify_all();
}

void UcxWorker::take_done_locked(std::span<const std::byte> data)
    ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  for (; data.size() >= sizeof(uint64_t); data = data.subspan(sizeof(uint64_t))) {
    uint64_t call = 0;
    std::memcpy(&call, data.data(), sizeof(call));
    const auto found = awaited_.find(call);
    if (found == awaited_.end() || !found->second.is_put) continue;
    UcxConnection* connection = found->second.connection;
    awaited_.erase(found);
    connection->note_answer_locked(call, Outcome::kDone);
  }
  changed.notify_all();
}

void UcxWorker::on_sent(void* request, ucs_status_t, void* sending)
    ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  Sending& sent = *static_cast<Sending*>(sending);
  ::ucp_request_free(request);
  sent.worker->take_back_locked(sent);
}

void UcxWorker::take_back_locked(Sending& sending) {
  if (const auto found = owed_.find(sending.answers); found != owed_.end()) {
    Owed& owed = found->second;
    --owed.count;
    owed.bytes -= sending.data.size();
    if (owed.count == 0 && !owed.is_cut) owed_.erase(found);
  }
  idle_.splice(idle_.end(), with_ucx_, sending.place);
  if (idle_.size() > kMostIdle) idle_.pop_back();
}

}  // namespace ashlar::symm
