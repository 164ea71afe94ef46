// SPDX-License-Identifier: Apache-2.0
//
// Sends calls and waits for responses, which message_handlers.cc receives.
#include "symm/transports/ucx/ucx_connection.h"

#include <algorithm>
#include <thread>

#include "base/fork_guard.h"
#include "base/host_memory.h"
#include "base/text.h"
#include "symm/transports/ucx/ucx_config.h"

namespace ashlar::symm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// How long a waiting thread calls progress itself before it leaves progress to the worker's thread.
constexpr microseconds kPollTime{300};
// The maximum interval between checks for a failure of the group.
constexpr milliseconds kMaxFailureCheckInterval{1};
constexpr milliseconds kFlushTimeout{200};
constexpr std::chrono::seconds kCloseTimeout{1};
// The maximum number of posted calls in flight, and separately of gets and fetches. With up to 64
// KiB per call, puts and gets are limited to 8 MiB each.
constexpr size_t kMaxPendingCalls = 128;

Message atomic_message(const RegionToken& region, const AtomicOp& wanted) {
  Message message;
  message.kind = MessageKind::kAtomic;
  message.region = region;
  message.offset = wanted.offset;
  message.atomic = static_cast<uint32_t>(wanted.kind);
  message.word_bytes = static_cast<uint32_t>(wanted.word_bytes);
  message.operand = wanted.operand;
  message.expected = wanted.expected;
  return message;
}

}  // namespace

Result<std::shared_ptr<UcxConnection>> UcxConnection::open(std::shared_ptr<UcxWorker> worker,
                                                           const Envelope& address, RemotePeer peer,
                                                           Deadline deadline) {
  if (Status listening = worker->listen(); !listening.ok()) return listening;
  const auto opened = make_fork_guarded<UcxConnection>(worker, std::move(peer));
  worker->add(opened);
  ucs_status_t status = opened->create(address, UCP_ERR_HANDLING_MODE_PEER);
  if (status == UCS_ERR_UNREACHABLE || status == UCS_ERR_UNSUPPORTED) {
    status = opened->create(address, UCP_ERR_HANDLING_MODE_NONE);
  }
  if (Status good = opened->check(); !good.ok() && status == UCS_ERR_CANCELED) return good;
  if (status != UCS_OK) {
    return ucx_fault("ucp_ep_create", status, text("cannot connect to ", opened->peer_name()));
  }
  if (Status sent = opened->post_message({}, {}, deadline); !sent.ok()) return sent;
  if (Status reached = opened->quiet(deadline); !reached.ok()) return reached;
  return opened;
}

UcxConnection::~UcxConnection() { close(Deadline::after(kFlushTimeout)); }

ucs_status_t UcxConnection::create(const Envelope& address, ucp_err_handling_mode_t mode) {
  const LogSilencer silencer;
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.content.data());
  params.err_mode = mode;
  params.err_handler = {UcxWorker::on_error, &worker_};
  MutexLock lock(worker_.mutex);
  if (!worker_.check_locked().ok()) return UCS_ERR_CANCELED;
  supports_forced_close_ = mode == UCP_ERR_HANDLING_MODE_PEER;
  const ucs_status_t status = ::ucp_ep_create(worker_.worker(), &params, &endpoint_);
  if (status == UCS_OK) worker_.register_endpoint_locked(endpoint_, *this);
  return status;
}

Status UcxConnection::put(const RegionOffset& to, std::span<const std::byte> from,
                          Deadline deadline) {
  Message message;
  message.kind = MessageKind::kPut;
  message.region = to.region;
  for (size_t done = 0; done < from.size(); done += kMaxDataBytes) {
    message.offset = to.offset + done;
    const auto piece = from.subspan(done, std::min(kMaxDataBytes, from.size() - done));
    if (Status sent = post_message(message, piece, deadline); !sent.ok()) return sent;
  }
  return {};
}

Status UcxConnection::post(const RegionToken& region, const AtomicOp& wanted, Deadline deadline) {
  return post_message(atomic_message(region, wanted), {}, deadline);
}

// Sends a call and does not wait for its response. `quiet` waits for the responses to all posted
// calls.
Status UcxConnection::post_message(const Message& message, std::span<const std::byte> data,
                                   Deadline deadline) {
  return send_call(message, {.connection = this, .is_posted = true}, data, deadline);
}

Status UcxConnection::get(const RegionOffset& from, std::span<std::byte> into, Deadline deadline) {
  ResponseWaiter waiter;
  Message message;
  message.kind = MessageKind::kGet;
  message.region = from.region;
  Status sent;
  for (size_t done = 0; done < into.size() && sent.ok(); done += kMaxDataBytes) {
    const auto piece = into.subspan(done, std::min(kMaxDataBytes, into.size() - done));
    message.offset = from.offset + done;
    message.bytes = piece.size();
    sent = send_call(message, {.connection = this, .waiter = &waiter, .into = piece}, {}, deadline);
  }
  return wait_for_responses(std::move(sent), waiter, "a get", deadline);
}

Result<uint64_t> UcxConnection::fetch(const RegionToken& region, const AtomicOp& wanted,
                                      Deadline deadline) {
  ResponseWaiter waiter;
  Status sent = send_call(atomic_message(region, wanted), {.connection = this, .waiter = &waiter},
                          {}, deadline);
  Status done = wait_for_responses(std::move(sent), waiter, "an atomic", deadline);
  if (!done.ok()) return done;
  return waiter.value;
}

Status UcxConnection::send_call(const Message& message, const PendingCall& pending,
                                std::span<const std::byte> data, Deadline deadline) {
  if (Status checked = worker_.check_owner_process(); !checked.ok()) return checked;
  const LogSilencer silencer;
  const auto has_room = [this, &pending]() ASHLAR_REQUIRES(worker_.mutex) {
    return (pending.is_posted ? posted_calls_.size() : fetch_count_) < kMaxPendingCalls;
  };
  for (;;) {
    if (peer_.failure->has_happened()) return peer_.failure->reason();
    {
      MutexLock lock(worker_.mutex);
      if (Status good = check_locked(); !good.ok()) return good;
      if (has_room()) return send_call_locked(message, pending, data);
    }
    const char* what = pending.is_posted ? "an earlier put or post" : "an earlier get or fetch";
    if (Status room = wait(has_room, what, deadline); !room.ok()) return room;
  }
}

Status UcxConnection::send_call_locked(Message message, const PendingCall& pending,
                                       std::span<const std::byte> data) {
  message.call = worker_.register_call_locked(pending);
  if (pending.is_posted) {
    message.is_posted = 1;
    posted_calls_.insert(message.call);
  } else {
    ++fetch_count_;
    ++pending.waiter->pending_count;
  }
  const ucs_status_t status = worker_.send_locked(endpoint_, message, data);
  if (status == UCS_OK) return {};
  fail_locked(::ucs_status_string(status));
  return failure_;
}

Status UcxConnection::quiet(Deadline deadline) {
  if (Status checked = worker_.check_owner_process(); !checked.ok()) return checked;
  const LogSilencer silencer;
  uint64_t last = 0;
  {
    MutexLock lock(worker_.mutex);
    if (Status good = check_locked(); !good.ok()) return good;
    if (!posted_calls_.empty()) last = *posted_calls_.rbegin();
  }
  const auto is_complete = [this, last]() ASHLAR_REQUIRES(worker_.mutex) {
    return posted_calls_.empty() || *posted_calls_.begin() > last;
  };
  if (Status done = wait(is_complete, "an earlier put or post", deadline); !done.ok()) return done;
  MutexLock lock(worker_.mutex);
  return std::exchange(first_error_, Status());
}

Status UcxConnection::wait_for_responses(Status sent, ResponseWaiter& waiter, const char* what,
                                         Deadline deadline) {
  const LogSilencer silencer;
  const auto is_done = [&waiter] { return waiter.pending_count == 0; };
  Status done = sent.ok() ? wait(is_done, what, deadline) : std::move(sent);
  if (done.ok()) return response_status(waiter.code);
  if (!worker_.in_owner_process()) return done;
  MutexLock lock(worker_.mutex);
  worker_.abandon_calls_locked(waiter);
  return done;
}

template <typename IsDone>
Status UcxConnection::wait(IsDone is_done, const char* what, Deadline deadline) {
  if (peer_.failure->has_happened()) return peer_.failure->reason();
  {
    MutexLock lock(worker_.mutex);
    if (is_done()) return {};
  }
  const Clock::time_point poll_until = Clock::now() + kPollTime;
  for (;;) {
    if (Clock::now() < poll_until) {
      MutexLock lock(worker_.mutex);
      worker_.progress_locked();
      if (is_done()) return {};
      if (Status good = check_locked(); !good.ok()) return good;
    } else {
      worker_.wake_progress_thread();
      MutexLock lock(worker_.mutex);
      if (is_done()) return {};
      if (Status good = check_locked(); !good.ok()) return good;
      lock.wait_until(worker_.changed,
                      std::min(deadline.at(), Clock::now() + kMaxFailureCheckInterval));
      if (is_done()) return {};
    }
    if (peer_.failure->has_happened()) return peer_.failure->reason();
    if (deadline.has_passed()) {
      return Status::timeout(text(peer_name(), ": ", what, " got no response before the deadline"));
    }
    std::this_thread::yield();
  }
}

Status UcxConnection::check() {
  if (Status checked = worker_.check_owner_process(); !checked.ok()) return checked;
  MutexLock lock(worker_.mutex);
  return check_locked();
}

Status UcxConnection::check_locked() const {
  if (Status good = worker_.check_locked(); !good.ok()) return good;
  if (!failure_.ok()) return failure_;
  if (endpoint_ == nullptr)
    return Status::invalid_argument(text(peer_name(), ": the connection is closed"));
  return {};
}

Status UcxConnection::response_status(ResponseCode code) const {
  switch (code) {
    case ResponseCode::kOk: return {};
    case ResponseCode::kUnknownRegion:
      return Status::invalid_argument(text(peer_name(), " no longer shares this region"));
    case ResponseCode::kInvalidCall: break;
  }
  return Status::invalid_argument(
      text(peer_name(), " rejected a call: it is outside of the region"));
}

void UcxConnection::complete_posted_locked(uint64_t call, ResponseCode code) {
  posted_calls_.erase(call);
  if (first_error_.ok()) first_error_ = response_status(code);
}

void UcxConnection::complete_fetch_locked() { --fetch_count_; }

void UcxConnection::fail_locked(const char* why) {
  if (!failure_.ok() || endpoint_ == nullptr) return;
  failure_ = without_bad_alloc([&] {
    return Status::peer_lost(text(peer_name(), ": the connection broke (", why,
                                  "). The process has exited or is unreachable"));
  });
  if (!has_announced_close_) {
    catch_bad_alloc([this]() ASHLAR_REQUIRES(worker_.mutex) { peer_.failure->report(failure_); });
  }
  worker_.changed.notify_all();
}

void UcxConnection::announce_close() {
  if (!worker_.in_owner_process()) return;
  MutexLock lock(worker_.mutex);
  has_announced_close_ = true;
}

void UcxConnection::close(Deadline flush_deadline) {
  if (!worker_.in_owner_process()) return;
  const LogSilencer silencer;
  ucp_ep_h endpoint = nullptr;
  {
    MutexLock lock(worker_.mutex);
    worker_.abandon_calls_locked(*this);
    endpoint = std::exchange(endpoint_, nullptr);
    if (endpoint == nullptr) return;
    worker_.unregister_endpoint_locked(endpoint);
    worker_.changed.notify_all();
  }
  if (!supports_forced_close_ || flush(endpoint, flush_deadline)) close_endpoint(endpoint);
}

// Waits until all data of the endpoint has been sent. Returns false at the deadline, and true if
// the connection is broken.
bool UcxConnection::flush(ucp_ep_h endpoint, Deadline deadline) {
  ucs_status_ptr_t flushing = nullptr;
  {
    MutexLock lock(worker_.mutex);
    if (worker_.worker() == nullptr) return true;
    const ucp_request_param_t param{};
    flushing = ::ucp_ep_flush_nbx(endpoint, &param);
  }
  if (!UCS_PTR_IS_PTR(flushing)) return true;
  for (;; std::this_thread::yield()) {
    MutexLock lock(worker_.mutex);
    if (worker_.worker() == nullptr) return true;  // ending the worker has released the request
    worker_.progress_locked();
    const bool is_complete = ::ucp_request_check_status(flushing) != UCS_INPROGRESS;
    if (!is_complete && !deadline.has_passed()) continue;
    ::ucp_request_free(flushing);
    return is_complete;
  }
}

// Closes the endpoint by force, if it supports that, because a suspended peer must not delay the
// call.
void UcxConnection::close_endpoint(ucp_ep_h endpoint) {
  ucs_status_ptr_t closing = nullptr;
  {
    MutexLock lock(worker_.mutex);
    if (worker_.worker() == nullptr) return;  // ending the worker has destroyed the endpoint
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    if (supports_forced_close_) param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    closing = ::ucp_ep_close_nbx(endpoint, &param);
    worker_.forget_endpoint_locked(endpoint);
  }
  if (!UCS_PTR_IS_PTR(closing)) return;
  const Deadline close_deadline = Deadline::after(kCloseTimeout);
  for (;; std::this_thread::yield()) {
    MutexLock lock(worker_.mutex);
    if (worker_.worker() == nullptr) return;  // ending the worker has released the request
    worker_.progress_locked();
    if (::ucp_request_check_status(closing) != UCS_INPROGRESS || close_deadline.has_passed()) {
      ::ucp_request_free(closing);
      return;
    }
  }
}

std::string UcxConnection::peer_name() const {
  return text("rank ", peer_.rank, " of group ", peer_.group);
}

}  // namespace ashlar::symm
