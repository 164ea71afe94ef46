// SPDX-License-Identifier: Apache-2.0
//
// The UCX context and worker of one transport, and the thread that drives them. UCX's worker opens
// the listening sockets, so it is created only when the process first needs its address or connects
// to a peer. Whichever thread calls progress executes the calls of peers. One mutex serializes all
// UCX calls on the worker. A thread that waits for a response calls progress itself at first; the
// worker's thread is mostly idle during that time.
#pragma once

#include <pthread.h>
#include <ucp/api/ucp.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ashlar/status.h"
#include "ashlar/ucx_transport.h"
#include "base/fork_guard.h"
#include "base/mutex.h"
#include "symm/transports/ucx/message.h"
#include "symm/transports/ucx/message_queues.h"

namespace ashlar::symm {

class UcxConnection;

// Suppresses UCX's log output on this thread for the lifetime of the object. Errors are reported by
// statuses instead.
class LogSilencer {
 public:
  LogSilencer();
  ~LogSilencer();
  LogSilencer(const LogSilencer&) = delete;
  LogSilencer& operator=(const LogSilencer&) = delete;
};

// A sleep that another thread can interrupt. An interrupt before the sleep ends it immediately.
// Thread safe.
class InterruptibleSleep {
 public:
  // Sleeps for `time` or until `interrupt`. Returns true if interrupted.
  bool sleep_for(std::chrono::microseconds time) ASHLAR_EXCLUDES(mutex_);
  void interrupt() ASHLAR_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::condition_variable interrupted_;
  bool is_interrupted_ ASHLAR_GUARDED_BY(mutex_) = false;
};

class UcxWorker {
 public:
  // Checks the options. Opens no sockets.
  static Result<std::shared_ptr<UcxWorker>> open(const UcxOptions& options);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  // Opens the sockets and starts the progress thread, unless an earlier call has succeeded. Returns
  // kInvalidArgument after `end`. REQUIRES: this is the owner process (`check_owner_process`).
  Status listen() ASHLAR_EXCLUDES(mutex, lifetime_mutex_);
  // Calls `listen` and returns the address that peers pass to `Transport::connect`.
  Result<std::string> address() ASHLAR_EXCLUDES(mutex, lifetime_mutex_);
  // Returns kInvalidArgument in a forked child, which lacks the worker's thread and may have
  // inherited a locked mutex. REQUIRES, for the functions below except `progress` and `end`, which
  // do nothing in a forked child: the caller has checked that this is the owner process.
  Status check_owner_process() const {
    if (in_owner_process()) return {};
    return Status::invalid_argument(
        "this UCX transport belongs to the process that forked this one: open another");
  }
  bool in_owner_process() const { return fork_guard_.in_creating_process(); }
  void progress() ASHLAR_EXCLUDES(mutex);
  // Ends the nap of the worker's thread, so that it calls progress. Called by a thread that
  // continues to wait but no longer calls progress itself.
  void wake_progress_thread() { nap_.interrupt(); }
  void end() ASHLAR_EXCLUDES(mutex, lifetime_mutex_);
  void add(const std::shared_ptr<UcxConnection>& connection) ASHLAR_EXCLUDES(mutex);
  std::vector<std::shared_ptr<UcxConnection>> connections() ASHLAR_EXCLUDES(mutex);

  Result<RegionToken> share(std::span<std::byte> memory) ASHLAR_EXCLUDES(mutex);
  void unshare(const RegionToken& region) ASHLAR_EXCLUDES(mutex);

  // Returns kInvalidArgument after `end`.
  Status check_locked() const ASHLAR_REQUIRES(mutex);
  ucp_worker_h worker() const ASHLAR_REQUIRES(mutex) { return worker_; }
  // Makes progress on behalf of a thread that waits. Repeated calls keep the worker's thread idle.
  void progress_locked() ASHLAR_REQUIRES(mutex);
  // Copies the message and passes it to UCX.
  ucs_status_t send_locked(ucp_ep_h to, const Message& message, std::span<const std::byte> data)
      ASHLAR_REQUIRES(mutex);
  // Registers a call that is about to be sent, and returns its number.
  uint64_t register_call_locked(const PendingCall& call) ASHLAR_REQUIRES(mutex) {
    return pending_calls_.add(call);
  }
  // See PendingCalls::abandon.
  void abandon_calls_locked(const ResponseWaiter& waiter) ASHLAR_REQUIRES(mutex) {
    pending_calls_.abandon(waiter);
  }
  void abandon_calls_locked(const UcxConnection& connection) ASHLAR_REQUIRES(mutex) {
    pending_calls_.abandon(connection);
  }

  // Map an endpoint to its connection, and remove the mapping. Calls from the peer are ignored once
  // the mapping is removed, so that no responses are sent through an endpoint that is being closed.
  void register_endpoint_locked(ucp_ep_h endpoint, UcxConnection& connection)
      ASHLAR_REQUIRES(mutex) {
    endpoints_[endpoint] = &connection;
  }
  void unregister_endpoint_locked(ucp_ep_h endpoint) ASHLAR_REQUIRES(mutex) {
    endpoints_.erase(endpoint);
    responses_.reject_calls(endpoint);
  }
  // Drops the state of a closed endpoint. UCX may reuse its address for another one.
  void forget_endpoint_locked(ucp_ep_h endpoint) ASHLAR_REQUIRES(mutex) {
    responses_.erase(endpoint);
  }
  // UCX's error handler; `worker` is the UcxWorker. Called with the mutex held.
  static void on_error(void* worker, ucp_ep_h endpoint, ucs_status_t status);
  // Bytes of calls and responses that UCX has not sent yet.
  size_t queued_bytes_locked() const ASHLAR_REQUIRES(mutex) {
    return send_buffers_.in_flight_bytes();
  }

  Mutex mutex;                      // held during every UCX call, including its socket I/O
  std::condition_variable changed;  // a response arrived, or a connection was lost or closed

 private:
  explicit UcxWorker(const UcxOptions& options) : busy_poll_(options.busy_poll) {}

  Status create_context(const UcxOptions& options) ASHLAR_EXCLUDES(mutex);
  Status create_worker_locked() ASHLAR_REQUIRES(mutex);
  Status read_address_locked() ASHLAR_REQUIRES(mutex);
  Status start_thread() ASHLAR_REQUIRES(lifetime_mutex_) ASHLAR_EXCLUDES(mutex);
  void run_progress_thread() ASHLAR_EXCLUDES(mutex);
  void wake_locked() ASHLAR_REQUIRES(mutex);
  // Runs UCX's progress, reports completed calls to peers, and fails the connections to peers that
  // do not read their responses. Returns 0 if UCX's progress had nothing to do.
  unsigned progress_once_locked() ASHLAR_REQUIRES(mutex);
  void destroy_worker_locked() ASHLAR_REQUIRES(mutex);

  // Defined in message_handlers.cc.
  static ucs_status_t on_message(void* worker, const void* header, size_t header_bytes, void* data,
                                 size_t data_bytes, const ucp_am_recv_param_t* param);
  static void on_sent(void* request, ucs_status_t status, void* buffer);
  void release_buffer_locked(SendBuffer& buffer) ASHLAR_REQUIRES(mutex);
  void handle_response_locked(const Message& response, std::span<const std::byte> data)
      ASHLAR_REQUIRES(mutex);
  void fail_connection_locked(ucp_ep_h endpoint, const char* why) ASHLAR_REQUIRES(mutex);
  void handle_call_locked(const Message& call, std::span<const std::byte> data, ucp_ep_h reply_to)
      ASHLAR_REQUIRES(mutex);
  void add_completed_locked(ucp_ep_h reply_to, uint64_t call) ASHLAR_REQUIRES(mutex);
  void flush_completed_locked() ASHLAR_REQUIRES(mutex);
  void send_completed_locked(ucp_ep_h reply_to, std::vector<uint64_t>& calls)
      ASHLAR_REQUIRES(mutex);
  void handle_completed_locked(std::span<const std::byte> data) ASHLAR_REQUIRES(mutex);

  // Hints that let the worker's thread stay idle while callers poll. Stale values only delay that
  // thread by one poll or nap.
  struct PollingHints {
    std::atomic<uint64_t> poll_count{0};  // progress calls by other threads
    // The value of poll_count when the worker's thread went to sleep.
    std::atomic<uint64_t> polls_before_sleep{0};
    std::atomic<bool> is_asleep{false};  // the worker's thread waits for a UCX event
  };

  const ForkGuard fork_guard_;
  const std::chrono::microseconds busy_poll_;
  int event_fd_ = -1;  // owned by UCX; constant while the progress thread runs
  PollingHints polling_;
  InterruptibleSleep nap_;  // the sleep of the worker's thread while callers poll
  // Set by `end`. A stale value is harmless: the thread runs one more iteration before it is
  // joined, and a connection that `check_locked` still admits is closed by the second pass in
  // `end`.
  std::atomic<bool> is_ending_{false};

  Mutex lifetime_mutex_;  // serializes `listen` and `end`; taken before `mutex`
  // The progress thread, from `listen` to `end`.
  std::optional<pthread_t> thread_ ASHLAR_GUARDED_BY(lifetime_mutex_);
  ucp_context_h context_ ASHLAR_GUARDED_BY(mutex) = nullptr;  // null after `end`
  ucp_worker_h worker_ ASHLAR_GUARDED_BY(mutex) = nullptr;  // null before `listen` and after `end`
  std::string address_ ASHLAR_GUARDED_BY(mutex);            // constant after `listen`
  SendBuffers send_buffers_ ASHLAR_GUARDED_BY(mutex);
  PendingCalls pending_calls_ ASHLAR_GUARDED_BY(mutex);
  ResponseQueue responses_ ASHLAR_GUARDED_BY(mutex);
  std::map<ucp_ep_h, UcxConnection*> endpoints_ ASHLAR_GUARDED_BY(mutex);
  std::map<RegionToken, std::span<std::byte>> regions_ ASHLAR_GUARDED_BY(mutex);
  std::vector<std::weak_ptr<UcxConnection>> connections_ ASHLAR_GUARDED_BY(mutex);
};

}  // namespace ashlar::symm
