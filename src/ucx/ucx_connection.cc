#include "ucx/ucx_connection.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "base/text.h"

namespace ashlar::symm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr microseconds kDriveItself{300};  // before it leaves progress to the worker's thread
constexpr milliseconds kLongestRest{1};    // between looks at the group's failure
constexpr std::chrono::seconds kClosingPatience{1};

ucp_atomic_op_t op_of(AtomicKind kind) {
  switch (kind) {
    case AtomicKind::kAdd: return UCP_ATOMIC_OP_ADD;
    case AtomicKind::kAnd: return UCP_ATOMIC_OP_AND;
    case AtomicKind::kOr: return UCP_ATOMIC_OP_OR;
    case AtomicKind::kXor: return UCP_ATOMIC_OP_XOR;
    case AtomicKind::kSwap: return UCP_ATOMIC_OP_SWAP;
    case AtomicKind::kCompareAndSwap: break;
  }
  return UCP_ATOMIC_OP_CSWAP;
}

// The number's bytes as a word of 4 or 8 has them in memory, whatever the byte order.
void store_word(uint64_t& place, uint64_t value, WordBytes word) {
  const auto low = static_cast<uint32_t>(value);
  if (word == WordBytes::k8) {
    place = value;
  } else {
    std::memcpy(&place, &low, sizeof(low));
  }
}

uint64_t load_word(const uint64_t& place, WordBytes word) {
  uint32_t low = 0;
  std::memcpy(&low, &place, sizeof(low));
  return word == WordBytes::k8 ? place : low;
}

void on_error(void* connection, ucp_ep_h, ucs_status_t status)
    ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  static_cast<UcxConnection*>(connection)->lose_locked(status);
}

}  // namespace

Result<std::shared_ptr<UcxConnection>> UcxConnection::open(std::shared_ptr<UcxWorker> worker,
                                                           const Envelope& address, RemotePeer peer,
                                                           Deadline deadline) {
  const auto opened = std::make_shared<UcxConnection>(worker, std::move(peer));
  {
    MutexLock lock(worker->mutex);
    if (Status good = worker->check_locked(); !good.ok()) return good;
  }
  worker->add(opened);
  ucs_status_t status = opened->create(address, UCP_ERR_HANDLING_MODE_PEER);
  if (status == UCS_ERR_UNREACHABLE || status == UCS_ERR_UNSUPPORTED) {
    status = opened->create(address, UCP_ERR_HANDLING_MODE_NONE);
  }
  if (status != UCS_OK) {
    return ucx_fault("ucp_ep_create", status, text(opened->who(), " cannot be connected to"));
  }
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
  return ::ucp_ep_create(worker_.worker(), &params, &endpoint_);
}

Status UcxConnection::put(const Place& to, std::span<const std::byte> from, Deadline deadline) {
  const Wish wish{"a put", Memory::kCallers, true};
  return call(
      wish, deadline,
      [&](ucp_ep_h endpoint, Operation& operation, const ucp_request_param_t& param) {
        const std::byte* source = from.data();
        if (!can_be_forced_) {
          operation.staged.assign(from.begin(), from.end());
          source = operation.staged.data();
        }
        return ::ucp_put_nbx(endpoint, source, from.size(), to.address, to.key, &param);
      },
      [](Operation&) {});
}

Status UcxConnection::get(const Place& from, std::span<std::byte> into, Deadline deadline) {
  const Wish wish{"a get", Memory::kCallers, false};
  return call(
      wish, deadline,
      [&](ucp_ep_h endpoint, Operation& operation, const ucp_request_param_t& param) {
        std::byte* target = into.data();
        if (!can_be_forced_) {
          operation.staged.resize(into.size());
          target = operation.staged.data();
        }
        return ::ucp_get_nbx(endpoint, target, into.size(), from.address, from.key, &param);
      },
      [&](Operation& operation) {
        std::copy(operation.staged.begin(), operation.staged.end(), into.begin());
      });
}

Status UcxConnection::atomic(const Place& at, const AtomicCall& wanted, uint64_t* answer,
                             Deadline deadline) {
  const Wish wish{"an atomic", Memory::kOwn, answer == nullptr};
  const bool compares = wanted.kind == AtomicKind::kCompareAndSwap;
  return call(
      wish, deadline,
      [&](ucp_ep_h endpoint, Operation& operation, ucp_request_param_t& param) {
        store_word(operation.operand, compares ? wanted.expected : wanted.operand, wanted.word);
        store_word(operation.answer, wanted.operand, wanted.word);
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
        param.datatype = ucp_dt_make_contig(static_cast<size_t>(wanted.word));
        if (answer != nullptr) {
          param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
          param.reply_buffer = &operation.answer;
        }
        return ::ucp_atomic_op_nbx(endpoint, op_of(wanted.kind), &operation.operand, 1, at.address,
                                   at.key, &param);
      },
      [&](Operation& operation) {
        if (answer != nullptr) *answer = load_word(operation.answer, wanted.word);
      });
}

// UCX 1.13 has a fence of its own, which orders what goes one way to the other side. Puts and
// atomics may go two.
Status UcxConnection::fence(Deadline deadline) {
  {
    MutexLock lock(worker_.mutex);
    if (Status good = check_locked(); !good.ok()) return good;
    if (quiet_count_ == put_count_) return {};
  }
  return quiet(deadline);
}

Status UcxConnection::quiet(Deadline deadline) {
  uint64_t covered = 0;
  {
    MutexLock lock(worker_.mutex);
    covered = put_count_;
  }
  const Wish wish{"what was sent", Memory::kOwn, false};
  Status flushed = call(
      wish, deadline,
      [](ucp_ep_h endpoint, Operation&, const ucp_request_param_t& param) {
        return ::ucp_ep_flush_nbx(endpoint, &param);
      },
      [](Operation&) {});
  if (!flushed.ok()) return flushed;
  MutexLock lock(worker_.mutex);
  quiet_count_ = std::max(quiet_count_, covered);
  return {};
}

template <typename Post, typename Finish>
Status UcxConnection::call(const Wish& wish, Deadline deadline, Post post, Finish finish) {
  const Hush hush;
  if (peer_.failure->has_happened()) return peer_.failure->reason();
  Operation* operation = nullptr;
  {
    MutexLock lock(worker_.mutex);
    if (Status good = check_locked(); !good.ok()) return good;
    operation = &worker_.take_locked(this);
    if (wish.is_put) ++put_count_;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.send = UcxWorker::on_done;
    param.user_data = operation;
    worker_.note_locked(*operation, post(endpoint_, *operation, param));
    const bool is_left_to_ucx = wish.is_put && (wish.memory == Memory::kOwn || !can_be_forced_);
    if (operation->status != UCS_INPROGRESS || is_left_to_ucx) {
      if (operation->status == UCS_INPROGRESS) worker_.wake_locked();
      Status ended =
          operation->status == UCS_INPROGRESS ? Status() : outcome_locked(*operation, wish);
      if (ended.ok()) finish(*operation);
      worker_.leave_locked(*operation);
      return ended;
    }
  }
  Status ended = wait(*operation, wish, deadline);
  MutexLock lock(worker_.mutex);
  if (ended.ok()) finish(*operation);
  worker_.leave_locked(*operation);
  return ended;
}

Status UcxConnection::wait(Operation& operation, const Wish& wish, Deadline deadline) {
  const Clock::time_point rest_from = Clock::now() + kDriveItself;
  {
    const UcxWorker::Driving driving(worker_);
    while (Clock::now() < rest_from) {
      {
        MutexLock lock(worker_.mutex);
        if (worker_.worker() != nullptr) ::ucp_worker_progress(worker_.worker());
        if (operation.status != UCS_INPROGRESS) return outcome_locked(operation, wish);
      }
      if (deadline.has_passed()) break;
      std::this_thread::yield();
    }
  }
  for (;;) {
    {
      MutexLock lock(worker_.mutex);
      if (operation.status != UCS_INPROGRESS) return outcome_locked(operation, wish);
      if (Status good = worker_.check_locked(); !good.ok()) return good;
      worker_.wake_locked();
      lock.wait_until(worker_.changed, std::min(deadline.at(), Clock::now() + kLongestRest));
      if (operation.status != UCS_INPROGRESS) return outcome_locked(operation, wish);
    }
    if (peer_.failure->has_happened()) return give_up(operation, wish, peer_.failure->reason());
    if (deadline.has_passed()) {
      return give_up(
          operation, wish,
          Status::timeout(text(who(), ": ", wish.what, " was not done before the deadline")));
    }
  }
}

// Memory of the caller's must be UCX's no more when this returns, and only the end of the endpoint
// takes it back.
Status UcxConnection::give_up(Operation& operation, const Wish& wish, Status why) {
  if (wish.memory == Memory::kOwn || !can_be_forced_) return why;
  {
    MutexLock lock(worker_.mutex);
    if (lost_.ok()) {
      lost_ = Status::peer_lost(text(who(), ": the connection was given up earlier, together with ",
                                     wish.what, " that was not done in time"));
    }
  }
  close();
  const Deadline patience = Deadline::after(kClosingPatience);
  for (;;) {
    MutexLock lock(worker_.mutex);
    if (worker_.worker() != nullptr) ::ucp_worker_progress(worker_.worker());
    if (operation.status != UCS_INPROGRESS || patience.has_passed()) return why;
  }
}

Status UcxConnection::check_locked() const {
  if (Status good = worker_.check_locked(); !good.ok()) return good;
  if (!lost_.ok()) return lost_;
  if (endpoint_ == nullptr) return Status::usage(text(who(), ": the connection is closed"));
  return {};
}

Status UcxConnection::outcome_locked(const Operation& operation, const Wish& wish) {
  if (operation.status == UCS_OK) return {};
  if (!lost_.ok()) return lost_;
  if (Status good = worker_.check_locked(); !good.ok()) return good;
  return ucx_fault("ucp", operation.status, text(who(), ": ", wish.what, " failed"));
}

void UcxConnection::lose_locked(ucs_status_t status) {
  if (!lost_.ok() || endpoint_ == nullptr) return;
  lost_ =
      Status::peer_lost(text(who(), ": the connection to it broke (", ::ucs_status_string(status),
                             "): it has ended or cannot be "
                             "reached any more"));
  if (!is_parting_) peer_.failure->report(lost_);
  worker_.changed.notify_all();
}

Result<ucp_rkey_h> UcxConnection::open_key(const Envelope& key) {
  const Hush hush;
  MutexLock lock(worker_.mutex);
  if (Status good = check_locked(); !good.ok()) return good;
  ucp_rkey_h opened = nullptr;
  const ucs_status_t status = ::ucp_ep_rkey_unpack(endpoint_, key.content.data(), &opened);
  if (status != UCS_OK) {
    return Status::format(
        text("UCX does not take a key of ", who(), ": ", ::ucs_status_string(status)));
  }
  keys_.insert(opened);
  return opened;
}

void UcxConnection::close_key(ucp_rkey_h key) {
  const Hush hush;
  MutexLock lock(worker_.mutex);
  if (keys_.erase(key) > 0) ::ucp_rkey_destroy(key);
}

void UcxConnection::farewell() {
  MutexLock lock(worker_.mutex);
  is_parting_ = true;
}

void UcxConnection::close() {
  const Hush hush;
  ucs_status_ptr_t closing = nullptr;
  {
    MutexLock lock(worker_.mutex);
    worker_.forget_locked(this);
    if (endpoint_ == nullptr) return;
    for (ucp_rkey_h key : keys_) ::ucp_rkey_destroy(key);
    keys_.clear();
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    if (can_be_forced_) param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    closing = ::ucp_ep_close_nbx(endpoint_, &param);
    endpoint_ = nullptr;
  }
  if (!UCS_PTR_IS_PTR(closing)) return;
  const Deadline patience = Deadline::after(kClosingPatience);
  for (;;) {
    MutexLock lock(worker_.mutex);
    ::ucp_worker_progress(worker_.worker());
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
