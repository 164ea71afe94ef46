// SPDX-License-Identifier: Apache-2.0
//
// Calls go out here; their answers arrive in serve.cc, and whoever waits finds them.
#include "symm/transports/ucx/ucx_connection.h"

#include <algorithm>
#include <thread>

#include "base/fork_guard.h"
#include "base/text.h"

namespace ashlar::symm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr microseconds kDriveItself{300};  // before it leaves progress to the worker's thread
constexpr milliseconds kLongestRest{1};    // between looks at the group's failure
constexpr std::chrono::seconds kClosingPatience{1};
// Of what a connection has put, and of what it has asked for: 8 MiB of each, with the other side or
// on the way.
constexpr size_t kMostUnanswered = 128;

void on_error(void* connection, ucp_ep_h, ucs_status_t status)
    ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  static_cast<UcxConnection*>(connection)->lose_locked(::ucs_status_string(status));
}

Message atomic_message(const RegionToken& region, const AtomicOp& wanted) {
  Message message;
  message.kind = MessageKind::kAtomic;
  message.region = region;
  message.offset = wanted.offset;
  message.atomic = static_cast<uint32_t>(wanted.kind);
  message.word_bytes = static_cast<uint32_t>(wanted.word);
  message.operand = wanted.operand;
  message.expected = wanted.expected;
  return message;
}

}  // namespace

Result<std::shared_ptr<UcxConnection>> UcxConnection::open(std::shared_ptr<UcxWorker> worker,
                                                           const Envelope& address, RemotePeer peer,
                                                           Deadline deadline) {
  const auto opened = make_fork_guarded<UcxConnection>(worker, std::move(peer));
  worker->add(opened);
  ucs_status_t status = opened->create(address, UCP_ERR_HANDLING_MODE_PEER);
  if (status == UCS_ERR_UNREACHABLE || status == UCS_ERR_UNSUPPORTED) {
    status = opened->create(address, UCP_ERR_HANDLING_MODE_NONE);
  }
  if (Status good = opened->check(); !good.ok() && status == UCS_ERR_CANCELED) return good;
  if (status != UCS_OK) {
    return ucx_fault("ucp_ep_create", status, text(opened->who(), " cannot be connected to"));
  }
  if (Status sent = opened->send({}, {}, deadline); !sent.ok()) return sent;
  if (Status reached = opened->quiet(deadline); !reached.ok()) return reached;
  return opened;
}

UcxConnection::~UcxConnection() { close(); }

ucs_status_t UcxConnection::create(const Envelope& address, ucp_err_handling_mode_t mode) {
  const Hush hush;
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.content.data());
  params.err_mode = mode;
  params.err_handler = {on_error, this};
  MutexLock lock(worker_.mutex);
  if (!worker_.check_locked().ok()) return UCS_ERR_CANCELED;
  can_be_forced_ = mode == UCP_ERR_HANDLING_MODE_PEER;
  const ucs_status_t status = ::ucp_ep_create(worker_.worker(), &params, &endpoint_);
  if (status == UCS_OK) worker_.note_endpoint_locked(endpoint_, *this);
  return status;
}

Status UcxConnection::put(const Place& to, std::span<const std::byte> from, Deadline deadline) {
  Message message;
  message.kind = MessageKind::kPut;
  message.region = to.region;
  for (size_t done = 0; done < from.size(); done += kMostDataBytes) {
    message.offset = to.offset + done;
    const auto piece = from.subspan(done, std::min(kMostDataBytes, from.size() - done));
    if (Status sent = send(message, piece, deadline); !sent.ok()) return sent;
  }
  return {};
}

Status UcxConnection::post(const RegionToken& region, const AtomicOp& wanted, Deadline deadline) {
  return send(atomic_message(region, wanted), {}, deadline);
}

// The other side answers each; `quiet` waits for the answers.
Status UcxConnection::send(const Message& message, std::span<const std::byte> data,
                           Deadline deadline) {
  return ask(message, {.connection = this, .is_put = true}, data, deadline);
}

Status UcxConnection::get(const Place& from, std::span<std::byte> into, Deadline deadline) {
  Waiter waiter;
  Message message;
  message.kind = MessageKind::kGet;
  message.region = from.region;
  Status asked;
  for (size_t done = 0; done < into.size() && asked.ok(); done += kMostDataBytes) {
    const auto piece = into.subspan(done, std::min(kMostDataBytes, into.size() - done));
    message.offset = from.offset + done;
    message.bytes = piece.size();
    asked = ask(message, {.connection = this, .waiter = &waiter, .into = piece}, {}, deadline);
  }
  return finish(std::move(asked), waiter, "a get", deadline);
}

Result<uint64_t> UcxConnection::fetch(const RegionToken& region, const AtomicOp& wanted,
                                      Deadline deadline) {
  Waiter waiter;
  Status asked =
      ask(atomic_message(region, wanted), {.connection = this, .waiter = &waiter}, {}, deadline);
  Status done = finish(std::move(asked), waiter, "an atomic", deadline);
  if (!done.ok()) return done;
  return waiter.answer;
}

Status UcxConnection::ask(const Message& message, const Awaited& awaited,
                          std::span<const std::byte> data, Deadline deadline) {
  if (Status here = worker_.check_here(); !here.ok()) return here;
  const Hush hush;
  const auto has_room = [this, &awaited]() ASHLAR_REQUIRES(worker_.mutex) {
    return (awaited.is_put ? unanswered_.size() : fetching_count_) < kMostUnanswered;
  };
  for (;;) {
    if (peer_.failure->has_happened()) return peer_.failure->reason();
    {
      MutexLock lock(worker_.mutex);
      if (Status good = check_locked(); !good.ok()) return good;
      if (has_room()) return ask_locked(message, awaited, data);
    }
    const char* what = awaited.is_put ? "what was sent earlier" : "what was asked for earlier";
    if (Status room = wait(has_room, what, deadline); !room.ok()) return room;
  }
}

Status UcxConnection::ask_locked(Message message, const Awaited& awaited,
                                 std::span<const std::byte> data) {
  message.call = worker_.await_locked(awaited);
  if (awaited.is_put) {
    message.is_posted = 1;
    unanswered_.insert(message.call);
  } else {
    ++fetching_count_;
    ++awaited.waiter->left_count;
  }
  const ucs_status_t status = worker_.send_locked(endpoint_, message, data);
  if (status == UCS_OK) return {};
  lose_locked(::ucs_status_string(status));
  return lost_;
}

Status UcxConnection::quiet(Deadline deadline) {
  if (Status here = worker_.check_here(); !here.ok()) return here;
  const Hush hush;
  uint64_t last = 0;
  {
    MutexLock lock(worker_.mutex);
    if (Status good = check_locked(); !good.ok()) return good;
    if (!unanswered_.empty()) last = *unanswered_.rbegin();
  }
  const auto is_answered = [this, last]() ASHLAR_REQUIRES(worker_.mutex) {
    return unanswered_.empty() || *unanswered_.begin() > last;
  };
  if (Status done = wait(is_answered, "what was sent", deadline); !done.ok()) return done;
  MutexLock lock(worker_.mutex);
  return std::exchange(refused_, Status());
}

// Nobody knows the waiter any more when it returns.
Status UcxConnection::finish(Status asked, Waiter& waiter, const char* what, Deadline deadline) {
  const Hush hush;
  const auto is_done = [&waiter] { return waiter.left_count == 0; };
  Status done = asked.ok() ? wait(is_done, what, deadline) : std::move(asked);
  if (done.ok()) return outcome_status(waiter.outcome);
  if (!worker_.is_here()) return done;
  MutexLock lock(worker_.mutex);
  worker_.stop_awaiting_locked(waiter);
  return done;
}

template <typename IsDone>
Status UcxConnection::wait(IsDone is_done, const char* what, Deadline deadline) {
  if (peer_.failure->has_happened()) return peer_.failure->reason();
  {
    MutexLock lock(worker_.mutex);
    if (is_done()) return {};
  }
  const Clock::time_point rest_from = Clock::now() + kDriveItself;
  for (;;) {
    if (Clock::now() < rest_from) {
      MutexLock lock(worker_.mutex);
      worker_.progress_locked();
      if (is_done()) return {};
      if (Status good = check_locked(); !good.ok()) return good;
    } else {
      worker_.call_back();
      MutexLock lock(worker_.mutex);
      if (is_done()) return {};
      if (Status good = check_locked(); !good.ok()) return good;
      lock.wait_until(worker_.changed, std::min(deadline.at(), Clock::now() + kLongestRest));
      if (is_done()) return {};
    }
    if (peer_.failure->has_happened()) return peer_.failure->reason();
    if (deadline.has_passed()) {
      return Status::timeout(text(who(), ": ", what, " was not answered before the deadline"));
    }
    std::this_thread::yield();
  }
}

Status UcxConnection::check() {
  if (Status here = worker_.check_here(); !here.ok()) return here;
  MutexLock lock(worker_.mutex);
  return check_locked();
}

Status UcxConnection::check_locked() const {
  if (Status good = worker_.check_locked(); !good.ok()) return good;
  if (!lost_.ok()) return lost_;
  if (endpoint_ == nullptr)
    return Status::invalid_argument(text(who(), ": the connection is closed"));
  return {};
}

Status UcxConnection::outcome_status(Outcome outcome) const {
  switch (outcome) {
    case Outcome::kDone: return {};
    case Outcome::kNoRegion:
      return Status::invalid_argument(text(who(), " does not share this region any more"));
    case Outcome::kBadCall: break;
  }
  return Status::invalid_argument(text(who(), " refused a call: it is not within the region"));
}

void UcxConnection::note_answer_locked(uint64_t call, Outcome outcome) {
  unanswered_.erase(call);
  if (refused_.ok()) refused_ = outcome_status(outcome);
}

void UcxConnection::note_fetched_locked() { --fetching_count_; }

void UcxConnection::lose_locked(const char* why) {
  if (!lost_.ok() || endpoint_ == nullptr) return;
  lost_ = Status::peer_lost(text(who(), ": the connection to it broke (", why,
                                 "): it has ended or cannot be reached any more"));
  if (!is_parting_) peer_.failure->report(lost_);
  worker_.changed.notify_all();
}

void UcxConnection::announce_close() {
  if (!worker_.is_here()) return;
  MutexLock lock(worker_.mutex);
  is_parting_ = true;
}

void UcxConnection::close() {
  if (!worker_.is_here()) return;
  const Hush hush;
  ucs_status_ptr_t closing = nullptr;
  {
    MutexLock lock(worker_.mutex);
    worker_.stop_awaiting_locked(*this);
    if (endpoint_ == nullptr) return;
    worker_.forget_endpoint_locked(endpoint_);
    if (worker_.worker() == nullptr) {  // the end did not find this one, and took all with it
      endpoint_ = nullptr;
      return;
    }
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    if (can_be_forced_) param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    closing = ::ucp_ep_close_nbx(endpoint_, &param);
    endpoint_ = nullptr;
    worker_.changed.notify_all();
  }
  if (!UCS_PTR_IS_PTR(closing)) return;
  const Deadline patience = Deadline::after(kClosingPatience);
  for (;; std::this_thread::yield()) {
    MutexLock lock(worker_.mutex);
    if (worker_.worker() == nullptr) return;  // the request went with it
    worker_.progress_locked();
    if (::ucp_request_check_status(closing) != UCS_INPROGRESS || patience.has_passed()) {
      ::ucp_request_free(closing);
      return;
    }
  }
}

std::string UcxConnection::who() const {
  return text("rank ", peer_.rank, " of group ", peer_.group);
}

}  // namespace ashlar::symm
