// SPDX-License-Identifier: Apache-2.0
//
// Opening and ending, the thread between, and who is awaited. What arrives: serve.cc.
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

#include "base/text.h"
#include "symm/transports/transport.h"
#include "symm/transports/ucx/envelope.h"
#include "symm/transports/ucx/ucx_connection.h"

namespace ashlar::symm {
namespace {

using std::chrono::microseconds;
using Clock = std::chrono::steady_clock;

// Of others, while the thread sleeps or naps: it is not needed. About three short calls.
constexpr uint64_t kLooksOfDrivers = 32;
// It comes back after an eighth of the time that they have looked, within these bounds. Timers and
// switches of a nap cost 5 us on a virtual machine, and calls of others may come as late as one
// lasts.
constexpr microseconds kShortestNap{50};
constexpr microseconds kLongestNap{400};

thread_local int hush_depth = 0;

ucs_log_func_rc_t hear_log(const char*, unsigned, const char*, ucs_log_level_t,
                           const ucs_log_component_config_t*, const char*, va_list) {
  return hush_depth > 0 ? UCS_LOG_FUNC_RC_STOP : UCS_LOG_FUNC_RC_CONTINUE;
}

struct ConfigDeleter {
  void operator()(ucp_config_t* config) const { ::ucp_config_release(config); }
};
using Config = std::unique_ptr<ucp_config_t, ConfigDeleter>;

Result<Config> read_config(const UcxOptions& options) {
  ucp_config_t* read = nullptr;
  const ucs_status_t status = ::ucp_config_read(nullptr, nullptr, &read);
  if (status != UCS_OK) {
    return ucx_fault("ucp_config_read", status, "the environment's settings (UCX_...) are wrong");
  }
  Config config(read);
  struct Setting {
    const char* name;
    std::string value;
  };
  // What UCX 1.13 sends over TCP from where it lies ends the process when the peer dies meanwhile
  // (uct_iface.h: "comp->count > 0"). Our messages are copied anyway.
  for (const Setting& each :
       {Setting{"TLS", options.transports}, Setting{"NET_DEVICES", options.devices},
        Setting{"ZCOPY_THRESH", "inf"}}) {
    if (each.value.empty()) continue;
    if (::ucp_config_modify(config.get(), each.name, each.value.c_str()) != UCS_OK) {
      return Status::invalid_argument(text("UCX does not take '", each.value, "' as ", each.name));
    }
  }
  return config;
}

}  // namespace

Hush::Hush() {
  static std::once_flag once;
  std::call_once(once, [] { ::ucs_log_push_handler(hear_log); });
  ++hush_depth;
}

Hush::~Hush() { --hush_depth; }

Status ucx_fault(std::string_view call, ucs_status_t status, const std::string& what) {
  return Status::device_fault(call, status, text(what, ": ", ::ucs_status_string(status)));
}

Result<std::shared_ptr<UcxWorker>> UcxWorker::open(const UcxOptions& options) {
  if (options.busy_poll.count() < 0 || options.busy_poll > std::chrono::seconds(1)) {
    return Status::invalid_argument(
        text("busy_poll of ", options.busy_poll.count(), " microseconds: expected 0 to 1000000"));
  }
  const auto end_here = [](UcxWorker* worker) {  // as make_fork_guarded does
    std::unique_ptr<UcxWorker> last(worker);
    if (!last->is_here()) static_cast<void>(last.release());
  };
  std::shared_ptr<UcxWorker> opened(new UcxWorker(options), end_here);
  if (Status started = opened->start(options); !started.ok()) return started;
  if (Status started = opened->start_thread(); !started.ok()) return started;
  return opened;
}

UcxWorker::~UcxWorker() { end(); }

Status UcxWorker::start(const UcxOptions& options) {
  const Hush hush;
  MutexLock lock(mutex);
  const Result<Config> config = read_config(options);
  if (!config.ok()) return config.status();
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "ashlar";
  ucs_status_t status = ::ucp_init(&params, config->get(), &context_);
  if (status != UCS_OK) {
    return Status::invalid_argument(text("UCX finds nothing that it could use as '",
                                         options.transports, "' over '", options.devices,
                                         "': ", ::ucs_status_string(status)));
  }
  ucp_worker_params_t worker_params{};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  status = ::ucp_worker_create(context_, &worker_params, &worker_);
  if (status != UCS_OK) return ucx_fault("ucp_worker_create", status, "no worker of UCX");
  status = ::ucp_worker_get_efd(worker_, &event_fd_);
  if (status != UCS_OK) return ucx_fault("ucp_worker_get_efd", status, "no events of UCX");

  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessageId;
  handler.cb = on_message;
  handler.arg = this;
  status = ::ucp_worker_set_am_recv_handler(worker_, &handler);
  if (status != UCS_OK) {
    return ucx_fault("ucp_worker_set_am_recv_handler", status, "no messages of UCX");
  }
  return publish_locked();
}

Status UcxWorker::publish_locked() {
  ucp_address_t* own = nullptr;
  size_t bytes = 0;
  const ucs_status_t status = ::ucp_worker_get_address(worker_, &own, &bytes);
  if (status != UCS_OK) return ucx_fault("ucp_worker_get_address", status, "no address of UCX");
  const auto* begin = reinterpret_cast<const char*>(own);
  address_ = seal({EnvelopeKind::kAddress, 0, 0, {begin, begin + bytes}});
  ::ucp_worker_release_address(worker_, own);
  if (address_.size() > Transport::kMaxAddressBytes) {
    return Status::invalid_argument(text("UCX's address has ", address_.size(),
                                         " bytes, and the limit is ", Transport::kMaxAddressBytes,
                                         ": name fewer devices"));
  }
  return {};
}

// As base/thread.h does, which is not for libraries outside the core.
Status UcxWorker::start_thread() {
  sigset_t blocked;
  sigset_t before;
  ::sigfillset(&blocked);
  for (int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) ::sigdelset(&blocked, own);
  ::pthread_sigmask(SIG_SETMASK, &blocked, &before);
  const auto body = [](void* worker) -> void* {
    static_cast<UcxWorker*>(worker)->answer_others();
    return nullptr;
  };
  const int error = ::pthread_create(&thread_, nullptr, body, this);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) return Status::device_fault("pthread_create", error, "no thread for UCX");
  has_thread_ = true;
  return {};
}

void UcxWorker::answer_others() {
  const Hush hush;
  Clock::time_point busy_until = Clock::now() + busy_poll_;
  microseconds nap = kShortestNap;
  uint64_t seen = 0;  // of the looks of others
  while (!is_ending_.load(std::memory_order_acquire)) {
    const uint64_t looks = look_count_.load(std::memory_order_relaxed);
    if (looks - seen >= kLooksOfDrivers) {
      const bool is_needed = take_nap(nap);
      seen = is_needed ? look_count_.load(std::memory_order_relaxed) : looks;
      nap = std::min(nap + nap / 8, kLongestNap);
      continue;
    }
    nap = kShortestNap;
    bool has_work = false;
    bool is_asleep = false;
    bool has_outstanding = false;
    {
      MutexLock lock(mutex);
      has_work = step_locked() > 0;
      if (!has_work && Clock::now() >= busy_until) {
        is_asleep = ::ucp_worker_arm(worker_) == UCS_OK;
        has_work = !is_asleep;
        looks_before_sleep_ = look_count_.load(std::memory_order_relaxed);
        is_asleep_.store(is_asleep, std::memory_order_relaxed);
      }
      has_outstanding = !with_ucx_.empty();
    }
    if (has_work) busy_until = Clock::now() + busy_poll_;
    if (is_asleep) {
      // Room to send more is no event of every transport, so that what waits for it is looked
      // after.
      pollfd wanted{event_fd_, POLLIN, 0};
      ::poll(&wanted, 1, has_outstanding ? 1 : -1);
      // Nobody called it off: what came is for the thread, however often others looked before.
      if (is_asleep_.exchange(false, std::memory_order_relaxed)) {
        seen = look_count_.load(std::memory_order_relaxed);
      }
    } else if (!has_work) {
      std::this_thread::yield();
    }
  }
}

bool UcxWorker::take_nap(microseconds time) {
  const Clock::time_point end = Clock::now() + time;
  MutexLock lock(napping_);
  while (!is_called_back_ && lock.wait_until(called_back_, end)) {
  }
  return std::exchange(is_called_back_, false);
}

void UcxWorker::call_back() {
  MutexLock lock(napping_);
  is_called_back_ = true;
  called_back_.notify_one();
}

void UcxWorker::progress() {
  if (!is_here()) return;
  const Hush hush;
  MutexLock lock(mutex);
  progress_locked();
}

void UcxWorker::progress_locked() {
  if (worker_ == nullptr) return;
  const uint64_t looks = look_count_.fetch_add(1, std::memory_order_relaxed);
  // Asleep, the thread is woken by every message, only to find that it was read here, and poll then
  // goes on without returning. So it is called off: naps are for as long as others look.
  if (looks - looks_before_sleep_ >= kLooksOfDrivers &&
      is_asleep_.exchange(false, std::memory_order_relaxed)) {
    wake_locked();
  }
  step_locked();
}

unsigned UcxWorker::step_locked() {
  const unsigned done = ::ucp_worker_progress(worker_);
  tell_done_locked();
  for (ucp_ep_h endpoint : std::exchange(to_cut_, {})) cut_off_locked(endpoint);
  return done;
}

void UcxWorker::end() {
  if (!is_here()) return;
  MutexLock one(ending_);
  const Hush hush;
  for (const auto& connection : connections()) connection->close();
  if (has_thread_) {
    is_ending_.store(true, std::memory_order_release);
    call_back();
    {
      MutexLock lock(mutex);
      wake_locked();
    }
    ::pthread_join(thread_, nullptr);
    has_thread_ = false;
  }
  // One that was added meanwhile.
  for (const auto& connection : connections()) connection->close();
  MutexLock lock(mutex);
  destroy_locked();
  changed.notify_all();
}

void UcxWorker::destroy_locked() {
  regions_.clear();
  awaited_.clear();
  endpoints_.clear();
  done_.clear();
  to_cut_.clear();
  if (worker_ != nullptr) ::ucp_worker_destroy(worker_);
  worker_ = nullptr;
  if (context_ != nullptr) ::ucp_cleanup(context_);
  context_ = nullptr;
  with_ucx_.clear();
  idle_.clear();
  owed_.clear();
}

Status UcxWorker::check_locked() const {
  if (worker_ != nullptr && !is_ending_.load(std::memory_order_relaxed)) return {};
  return Status::invalid_argument("the transport (UCX) has ended already");
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
    return Status::device_fault("getrandom", errno, "no random bytes for the key of a region");
  }
  MutexLock lock(mutex);
  if (Status good = check_locked(); !good.ok()) return good;
  regions_[token] = memory;
  return token;
}

void UcxWorker::forget(const RegionToken& region) {
  MutexLock lock(mutex);
  regions_.erase(region);
}

ucs_status_t UcxWorker::send_locked(ucp_ep_h to, const Message& message,
                                    std::span<const std::byte> data) {
  if (idle_.empty()) {
    idle_.push_back(std::make_unique<Sending>());
    idle_.back()->place = idle_.begin();
  }
  Sending& sending = *idle_.back();
  // Before UCX has it: what one sends to oneself is served, and answered, meanwhile.
  with_ucx_.splice(with_ucx_.end(), idle_, sending.place);
  sending.worker = this;
  sending.message = message;
  sending.data.assign(data.begin(), data.end());
  const bool is_answer = message.kind == MessageKind::kAnswer || message.kind == MessageKind::kDone;
  sending.answers = is_answer ? to : nullptr;
  if (sending.answers != nullptr) {
    Owed& owed = owed_[to];
    ++owed.count;
    owed.bytes += data.size();
  }
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.cb.send = on_sent;
  param.user_data = &sending;
  // Larger ones would be fetched by the other side, from memory that may be gone.
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  if (!is_answer) param.flags |= UCP_AM_SEND_FLAG_REPLY;
  ucs_status_ptr_t answer =
      ::ucp_am_send_nbx(to, kMessageId, &sending.message, sizeof(sending.message),
                        sending.data.data(), sending.data.size(), &param);
  if (UCS_PTR_IS_PTR(answer)) {
    wake_locked();  // whoever called may have better things to do than progress
    return UCS_OK;
  }
  take_back_locked(sending);
  return UCS_PTR_STATUS(answer);
}

uint64_t UcxWorker::await_locked(const Awaited& awaited) {
  awaited_[++call_count_] = awaited;
  return call_count_;
}

void UcxWorker::stop_awaiting_locked(const Waiter& waiter) {
  for (auto& [call, awaited] : awaited_) {
    if (awaited.waiter != &waiter) continue;
    awaited.waiter = nullptr;
    awaited.into = {};
  }
}

void UcxWorker::stop_awaiting_locked(const UcxConnection& connection) {
  std::erase_if(awaited_, [&](const auto& each) { return each.second.connection == &connection; });
}

size_t UcxWorker::waiting_bytes_locked() const {
  size_t bytes = 0;
  for (const auto& each : with_ucx_) bytes += sizeof(Message) + each->data.size();
  return bytes;
}

void UcxWorker::wake_locked() {
  if (worker_ != nullptr) ::ucp_worker_signal(worker_);
}

}  // namespace ashlar::symm
