// SPDX-License-Identifier: Apache-2.0
//
// Implements initialization, shutdown, the progress thread and sending. message_handlers.cc handles
// incoming messages.
#include "symm/transports/ucx/ucx_worker.h"

#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <ucs/debug/log_def.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <thread>
#include <utility>

#include "base/host_memory.h"
#include "base/text.h"
#include "symm/transports/transport.h"
#include "symm/transports/ucx/envelope.h"
#include "symm/transports/ucx/ucx_config.h"
#include "symm/transports/ucx/ucx_connection.h"

namespace ashlar::symm {
namespace {

using std::chrono::microseconds;
using Clock = std::chrono::steady_clock;

// The worker's thread naps once callers have polled this many times. Three short calls poll about
// 32 times.
constexpr uint64_t kCallerPollsBeforeNap = 32;
// While callers poll, each nap is an eighth longer than the previous one, within these bounds.
// A nap costs 5 us on a virtual machine for timers and context switches, and delays calls from
// peers by at most its length.
constexpr microseconds kShortestNap{50};
constexpr microseconds kLongestNap{400};
// How long `end` waits for data that is still being sent.
constexpr std::chrono::milliseconds kEndFlushTimeout{200};

thread_local int silencer_depth = 0;

ucs_log_func_rc_t filter_log(const char*, unsigned, const char*, ucs_log_level_t,
                             const ucs_log_component_config_t*, const char*, va_list) {
  return silencer_depth > 0 ? UCS_LOG_FUNC_RC_STOP : UCS_LOG_FUNC_RC_CONTINUE;
}

}  // namespace

LogSilencer::LogSilencer() {
  static std::once_flag once;
  std::call_once(once, [] { ::ucs_log_push_handler(filter_log); });
  ++silencer_depth;
}

LogSilencer::~LogSilencer() { --silencer_depth; }

Result<std::shared_ptr<UcxWorker>> UcxWorker::open(const UcxOptions& options) {
  if (options.busy_poll.count() < 0 || options.busy_poll > std::chrono::seconds(1)) {
    return Status::invalid_argument(
        text("busy_poll of ", options.busy_poll.count(), " microseconds: expected 0 to 1000000"));
  }
  const auto destroy_in_owner = [](UcxWorker* worker) {  // does what make_fork_guarded does
    std::unique_ptr<UcxWorker> last(worker);
    if (!last->in_owner_process()) static_cast<void>(last.release());
  };
  std::shared_ptr<UcxWorker> opened(new UcxWorker(options), destroy_in_owner);
  if (Status created = opened->create_context(options); !created.ok()) return created;
  return opened;
}

UcxWorker::~UcxWorker() { end(); }

Status UcxWorker::create_context(const UcxOptions& options) {
  const LogSilencer silencer;
  MutexLock lock(mutex);
  const Result<UcxConfig> config = read_ucx_config(options);
  if (!config.ok()) return config.status();
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "ashlar";
  const ucs_status_t status = ::ucp_init(&params, config->get(), &context_);
  if (status != UCS_OK) {
    return Status::invalid_argument(text("UCX finds no usable transport '", options.transports,
                                         "' on device '", options.devices,
                                         "': ", ::ucs_status_string(status)));
  }
  return {};
}

Status UcxWorker::listen() {
  MutexLock lifetime_lock(lifetime_mutex_);
  if (thread_) return {};
  const LogSilencer silencer;
  Status started;
  {
    MutexLock lock(mutex);
    if (Status good = check_locked(); !good.ok()) return good;
    started = create_worker_locked();
  }
  if (started.ok()) started = start_thread();
  if (started.ok()) return started;
  MutexLock lock(mutex);
  destroy_worker_locked();
  return started;
}

Result<std::string> UcxWorker::address() {
  if (Status listening = listen(); !listening.ok()) return listening;
  MutexLock lock(mutex);
  return address_;
}

Status UcxWorker::create_worker_locked() {
  ucp_worker_params_t worker_params{};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t status = ::ucp_worker_create(context_, &worker_params, &worker_);
  if (status != UCS_OK) return ucx_fault("ucp_worker_create", status, "cannot create a UCX worker");
  status = ::ucp_worker_get_efd(worker_, &event_fd_);
  if (status != UCS_OK)
    return ucx_fault("ucp_worker_get_efd", status, "cannot get the UCX event descriptor");

  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessageId;
  handler.cb = on_message;
  handler.arg = this;
  status = ::ucp_worker_set_am_recv_handler(worker_, &handler);
  if (status != UCS_OK) {
    return ucx_fault("ucp_worker_set_am_recv_handler", status,
                     "cannot register the UCX message handler");
  }
  return read_address_locked();
}

Status UcxWorker::read_address_locked() {
  ucp_address_t* own = nullptr;
  size_t bytes = 0;
  const ucs_status_t status = ::ucp_worker_get_address(worker_, &own, &bytes);
  if (status != UCS_OK)
    return ucx_fault("ucp_worker_get_address", status, "cannot get the UCX address");
  const auto* begin = reinterpret_cast<const char*>(own);
  address_ = seal({EnvelopeKind::kAddress, 0, 0, {begin, begin + bytes}});
  ::ucp_worker_release_address(worker_, own);
  if (address_.size() > Transport::kMaxAddressBytes) {
    return Status::invalid_argument(text("the UCX address has ", address_.size(), " bytes (limit ",
                                         Transport::kMaxAddressBytes, "): use fewer devices"));
  }
  return {};
}

// Starts a thread that receives no asynchronous signals, like base/thread.h, which is not available
// to libraries outside the core.
Status UcxWorker::start_thread() {
  sigset_t blocked;
  sigset_t before;
  ::sigfillset(&blocked);
  for (int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) ::sigdelset(&blocked, own);
  ::pthread_sigmask(SIG_SETMASK, &blocked, &before);
  const auto body = [](void* worker) -> void* {
    static_cast<UcxWorker*>(worker)->run_progress_thread();
    return nullptr;
  };
  pthread_t thread{};
  const int error = ::pthread_create(&thread, nullptr, body, this);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0)
    return Status::device_fault("pthread_create", error, "cannot start the UCX thread");
  thread_ = thread;
  return {};
}

void UcxWorker::run_progress_thread() {
  const LogSilencer silencer;
  Clock::time_point busy_until = Clock::now() + busy_poll_;
  microseconds nap = kShortestNap;
  // The value of `poll_count` when this thread last napped or slept. Polls since then show that
  // callers make progress themselves.
  uint64_t seen_polls = 0;
  while (!is_ending_.load(std::memory_order_acquire)) {
    const uint64_t polls = polling_.poll_count.load(std::memory_order_relaxed);
    if (polls - seen_polls >= kCallerPollsBeforeNap) {
      const bool is_needed = nap_.sleep_for(nap);
      seen_polls = is_needed ? polling_.poll_count.load(std::memory_order_relaxed) : polls;
      nap = std::min(nap + nap / 8, kLongestNap);
      continue;
    }
    nap = kShortestNap;
    bool has_work = false;
    bool is_asleep = false;
    bool has_in_flight = false;
    {
      MutexLock lock(mutex);
      has_work =
          catch_bad_alloc([this]() ASHLAR_REQUIRES(mutex) { return progress_once_locked(); }) > 0;
      if (!has_work && Clock::now() >= busy_until) {
        is_asleep = ::ucp_worker_arm(worker_) == UCS_OK;
        has_work = !is_asleep;
        polling_.polls_before_sleep.store(polling_.poll_count.load(std::memory_order_relaxed),
                                          std::memory_order_relaxed);
        polling_.is_asleep.store(is_asleep, std::memory_order_relaxed);
      }
      has_in_flight = send_buffers_.has_in_flight();
    }
    if (has_work) busy_until = Clock::now() + busy_poll_;
    if (is_asleep) {
      // Not every UCX transport signals an event when it can send again, so poll while messages are
      // queued.
      pollfd wanted{event_fd_, POLLIN, 0};
      ::poll(&wanted, 1, has_in_flight ? 1 : -1);
      // If still marked asleep, the thread was woken by a UCX event or the time limit rather than
      // by a caller. It then calls progress even if callers poll.
      if (polling_.is_asleep.exchange(false, std::memory_order_relaxed)) {
        seen_polls = polling_.poll_count.load(std::memory_order_relaxed);
      }
    } else if (!has_work) {
      std::this_thread::yield();
    }
  }
}

bool InterruptibleSleep::sleep_for(microseconds time) {
  const Clock::time_point end = Clock::now() + time;
  MutexLock lock(mutex_);
  while (!is_interrupted_ && lock.wait_until(interrupted_, end)) {
  }
  return std::exchange(is_interrupted_, false);
}

void InterruptibleSleep::interrupt() {
  MutexLock lock(mutex_);
  is_interrupted_ = true;
  interrupted_.notify_one();
}

void UcxWorker::progress() {
  if (!in_owner_process()) return;
  const LogSilencer silencer;
  MutexLock lock(mutex);
  progress_locked();
}

void UcxWorker::progress_locked() {
  if (worker_ == nullptr) return;
  const uint64_t polls = polling_.poll_count.fetch_add(1, std::memory_order_relaxed);
  // While the worker's thread sleeps, every message wakes it, although a polling caller has already
  // handled the message. Waking the thread once makes it nap instead for as long as callers poll.
  if (polls - polling_.polls_before_sleep.load(std::memory_order_relaxed) >=
          kCallerPollsBeforeNap &&
      polling_.is_asleep.exchange(false, std::memory_order_relaxed)) {
    wake_locked();
  }
  progress_once_locked();
}

unsigned UcxWorker::progress_once_locked() {
  const unsigned done = ::ucp_worker_progress(worker_);
  flush_completed_locked();
  for (ucp_ep_h endpoint : responses_.take_newly_rejected()) {
    fail_connection_locked(endpoint, "the peer does not read its responses");
  }
  return done;
}

void UcxWorker::end() {
  if (!in_owner_process()) return;
  MutexLock lifetime_lock(lifetime_mutex_);
  const LogSilencer silencer;
  const Deadline flush_deadline = Deadline::after(kEndFlushTimeout);
  for (const auto& connection : connections()) connection->close(flush_deadline);
  is_ending_.store(true, std::memory_order_release);
  if (thread_) {
    wake_progress_thread();
    {
      MutexLock lock(mutex);
      wake_locked();
    }
    ::pthread_join(*thread_, nullptr);
    thread_.reset();
  }
  // Closes connections that were added in the meantime.
  for (const auto& connection : connections()) connection->close(flush_deadline);
  MutexLock lock(mutex);
  regions_.clear();
  destroy_worker_locked();
  if (context_ != nullptr) ::ucp_cleanup(context_);
  context_ = nullptr;
  changed.notify_all();
}

void UcxWorker::destroy_worker_locked() {
  pending_calls_.clear();
  endpoints_.clear();
  responses_.clear_queued();
  if (worker_ != nullptr) ::ucp_worker_destroy(worker_);
  worker_ = nullptr;
  send_buffers_.clear();
  responses_ = {};
}

Status UcxWorker::check_locked() const {
  if (context_ != nullptr && !is_ending_.load(std::memory_order_relaxed)) return {};
  return Status::invalid_argument("the UCX transport has ended");
}

void UcxWorker::add(const std::shared_ptr<UcxConnection>& connection) {
  MutexLock lock(mutex);
  std::erase_if(connections_, [](const auto& each) { return each.expired(); });
  connections_.push_back(connection);
}

std::vector<std::shared_ptr<UcxConnection>> UcxWorker::connections() {
  MutexLock lock(mutex);
  std::vector<std::shared_ptr<UcxConnection>> all;
  for (const auto& each : connections_) {
    if (std::shared_ptr<UcxConnection> alive = each.lock()) all.push_back(std::move(alive));
  }
  return all;
}

Result<RegionToken> UcxWorker::share(std::span<std::byte> memory) {
  RegionToken token{};
  if (::getrandom(token.data(), sizeof(token), 0) != static_cast<ssize_t>(sizeof(token))) {
    return Status::device_fault("getrandom", errno, "cannot create a random region key");
  }
  MutexLock lock(mutex);
  if (Status good = check_locked(); !good.ok()) return good;
  regions_[token] = memory;
  return token;
}

void UcxWorker::unshare(const RegionToken& region) {
  MutexLock lock(mutex);
  regions_.erase(region);
}

ucs_status_t UcxWorker::send_locked(ucp_ep_h to, const Message& message,
                                    std::span<const std::byte> data) {
  // The buffer is in flight before UCX gets the message, because a message to this process is
  // handled during the send.
  SendBuffer& buffer = send_buffers_.acquire();
  ScopeGuard undo([&]() ASHLAR_REQUIRES(mutex) { send_buffers_.release(buffer); });
  buffer.worker = this;
  buffer.message = message;
  buffer.data.assign(data.begin(), data.end());
  const bool is_response =
      message.kind == MessageKind::kResponse || message.kind == MessageKind::kCompleted;
  buffer.reply_to = is_response ? to : nullptr;
  if (is_response) responses_.add_unsent(to, data.size());
  undo.dismiss();
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.cb.send = on_sent;
  param.user_data = &buffer;
  // Without this flag, the receiver would read large messages from memory that may be freed.
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  if (!is_response) param.flags |= UCP_AM_SEND_FLAG_REPLY;
  ucs_status_ptr_t request =
      ::ucp_am_send_nbx(to, kMessageId, &buffer.message, sizeof(buffer.message), buffer.data.data(),
                        buffer.data.size(), &param);
  if (UCS_PTR_IS_PTR(request)) {
    wake_locked();  // because the caller may not call progress soon
    return UCS_OK;
  }
  release_buffer_locked(buffer);
  return UCS_PTR_STATUS(request);
}

void UcxWorker::wake_locked() {
  if (worker_ != nullptr) ::ucp_worker_signal(worker_);
}

}  // namespace ashlar::symm
