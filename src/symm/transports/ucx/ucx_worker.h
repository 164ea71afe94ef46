// SPDX-License-Identifier: Apache-2.0
//
// UCX's context and worker of one process, and the thread that answers others: what is put here is
// written by whoever calls progress here. One mutex for all calls of UCX; whoever waits for
// something calls progress itself meanwhile, and the thread keeps out of its way.
#pragma once

#include <pthread.h>
#include <ucp/api/ucp.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ashlar/status.h"
#include "ashlar/ucx_transport.h"
#include "base/fork_guard.h"
#include "base/mutex.h"
#include "symm/transports/ucx/message.h"

namespace ashlar::symm {

class UcxConnection;
class UcxWorker;

// UCX says on standard output what its caller is told by a status: not while this is there, on this
// thread.
class Hush {
 public:
  Hush();
  ~Hush();
  Hush(const Hush&) = delete;
  Hush& operator=(const Hush&) = delete;
};

// A message that UCX has not sent yet, which needs its memory meanwhile.
struct Sending {
  UcxWorker* worker = nullptr;
  Message message{};
  std::vector<std::byte> data{};
  ucp_ep_h answers = nullptr;                             // whom; null: it is a call
  std::list<std::unique_ptr<Sending>>::iterator place{};  // in one of the worker's lists
};

// One who waits for answers. On the waiter's stack, and known to the worker while it is there.
struct Waiter {
  size_t left_count = 0;
  uint64_t answer = 0;
  Outcome outcome = Outcome::kDone;  // the first that is not kDone
};

// A call whose answer has not come. Without a put, the connection counts what is on its way; one
// that was given up has no waiter any more.
struct Awaited {
  UcxConnection* connection = nullptr;
  bool is_put = false;  // or posted: nobody waits for it by itself
  Waiter* waiter = nullptr;
  std::span<std::byte> into{};
};

// Answers to one endpoint that UCX has not sent yet: the other side asks, and does not read.
struct Owed {
  size_t count = 0;
  size_t bytes = 0;
  bool is_cut = false;  // it was too much: nothing more is done for it
};

class UcxWorker {
 public:
  static Result<std::shared_ptr<UcxWorker>> open(const UcxOptions& options);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  const std::string& address() const { return address_; }
  // kInvalidArgument: this is a child of the process that opened it, without its thread, and maybe
  // with a lock that nobody lets go of. Whoever gets another answer may call what follows.
  Status check_here() const {
    if (is_here()) return {};
    return Status::invalid_argument(
        "this transport (UCX) is of the process that this one was forked off: open another");
  }
  bool is_here() const { return fork_guard_.in_creating_process(); }
  void progress() ASHLAR_EXCLUDES(mutex);
  // Whoever has looked until now waits on without looking: the thread is to do it.
  void call_back() ASHLAR_EXCLUDES(napping_);
  void end() ASHLAR_EXCLUDES(mutex, ending_);
  void add(const std::shared_ptr<UcxConnection>& connection) ASHLAR_EXCLUDES(mutex);
  std::vector<std::shared_ptr<UcxConnection>> connections() ASHLAR_EXCLUDES(mutex);

  Result<RegionToken> share(std::span<std::byte> memory) ASHLAR_EXCLUDES(mutex);
  void forget(const RegionToken& region) ASHLAR_EXCLUDES(mutex);

  // kInvalidArgument: it has ended.
  Status check_locked() const ASHLAR_REQUIRES(mutex);
  ucp_worker_h worker() const ASHLAR_REQUIRES(mutex) { return worker_; }
  // For those who wait; whoever calls it again and again keeps the thread away.
  void progress_locked() ASHLAR_REQUIRES(mutex);
  // UCX has it when this returns, or has failed.
  ucs_status_t send_locked(ucp_ep_h to, const Message& message, std::span<const std::byte> data)
      ASHLAR_REQUIRES(mutex);
  // The number of a call that is going to be sent.
  uint64_t await_locked(const Awaited& awaited) ASHLAR_REQUIRES(mutex);
  // The answers come, but nobody waits for them.
  void stop_awaiting_locked(const Waiter& waiter) ASHLAR_REQUIRES(mutex);
  void stop_awaiting_locked(const UcxConnection& connection) ASHLAR_REQUIRES(mutex);

  // Whose endpoint that is, from its creation to its end.
  void note_endpoint_locked(ucp_ep_h endpoint, UcxConnection& connection) ASHLAR_REQUIRES(mutex) {
    endpoints_[endpoint] = &connection;
  }
  void forget_endpoint_locked(ucp_ep_h endpoint) ASHLAR_REQUIRES(mutex) {
    endpoints_.erase(endpoint);
    owed_.erase(endpoint);
    done_.erase(endpoint);
  }
  // What waits to be sent, in answers and calls.
  size_t waiting_bytes_locked() const ASHLAR_REQUIRES(mutex);

  Mutex mutex;                      // every call of UCX; sockets, too
  std::condition_variable changed;  // an answer came, or a connection broke

 private:
  explicit UcxWorker(const UcxOptions& options) : busy_poll_(options.busy_poll) {}

  Status start(const UcxOptions& options) ASHLAR_EXCLUDES(mutex);
  Status publish_locked() ASHLAR_REQUIRES(mutex);
  Status start_thread() ASHLAR_EXCLUDES(mutex);
  void answer_others() ASHLAR_EXCLUDES(mutex);
  // True: it was called back.
  bool take_nap(std::chrono::microseconds time) ASHLAR_EXCLUDES(mutex, napping_);
  void wake_locked() ASHLAR_REQUIRES(mutex);
  // Lets UCX work; then tells others what was done for them meanwhile, and cuts off whom it found
  // to be owed too much. 0: there was nothing to do.
  unsigned step_locked() ASHLAR_REQUIRES(mutex);
  void destroy_locked() ASHLAR_REQUIRES(mutex);

  // --- serve.cc
  static ucs_status_t on_message(void* worker, const void* header, size_t header_bytes, void* data,
                                 size_t data_bytes, const ucp_am_recv_param_t* param);
  static void on_sent(void* request, ucs_status_t status, void* sending);
  void take_back_locked(Sending& sending) ASHLAR_REQUIRES(mutex);
  void take_answer_locked(const Message& answer, std::span<const std::byte> data)
      ASHLAR_REQUIRES(mutex);
  // Whether this one may be answered, too.
  bool may_answer_locked(ucp_ep_h reply_to) ASHLAR_REQUIRES(mutex);
  void cut_off_locked(ucp_ep_h endpoint) ASHLAR_REQUIRES(mutex);
  void serve_locked(const Message& call, std::span<const std::byte> data, ucp_ep_h reply_to)
      ASHLAR_REQUIRES(mutex);
  void note_done_locked(ucp_ep_h reply_to, uint64_t call) ASHLAR_REQUIRES(mutex);
  void tell_done_locked() ASHLAR_REQUIRES(mutex);
  void tell_done_locked(ucp_ep_h reply_to, std::vector<uint64_t>& calls) ASHLAR_REQUIRES(mutex);
  void take_done_locked(std::span<const std::byte> data) ASHLAR_REQUIRES(mutex);

  const ForkGuard fork_guard_;
  const std::chrono::microseconds busy_poll_;
  std::string address_;  // constant once started
  int event_fd_ = -1;    // UCX's own; likewise
  pthread_t thread_{};
  bool has_thread_ = false;
  // How often others than the thread have let UCX work, and whether it sleeps until UCX has an
  // event. Hints, which nothing else hangs on: whoever reads old ones is a look or a nap late.
  std::atomic<uint64_t> look_count_{0};
  std::atomic<bool> is_asleep_{false};
  // Whoever reads it late takes part a moment longer; the thread is joined before anything goes.
  std::atomic<bool> is_ending_{false};

  Mutex napping_;  // taken last
  std::condition_variable called_back_;
  bool is_called_back_ ASHLAR_GUARDED_BY(napping_) = false;  // until a nap ends by it

  Mutex ending_;  // one end at a time; taken before mutex
  ucp_context_h context_ ASHLAR_GUARDED_BY(mutex) = nullptr;
  ucp_worker_h worker_ ASHLAR_GUARDED_BY(mutex) = nullptr;  // null: over
  uint64_t looks_before_sleep_ ASHLAR_GUARDED_BY(mutex) = 0;
  std::list<std::unique_ptr<Sending>> with_ucx_ ASHLAR_GUARDED_BY(mutex);
  std::list<std::unique_ptr<Sending>> idle_ ASHLAR_GUARDED_BY(mutex);  // for the next
  uint64_t call_count_ ASHLAR_GUARDED_BY(mutex) = 0;
  std::map<uint64_t, Awaited> awaited_ ASHLAR_GUARDED_BY(mutex);
  std::map<ucp_ep_h, UcxConnection*> endpoints_ ASHLAR_GUARDED_BY(mutex);
  std::map<ucp_ep_h, Owed> owed_ ASHLAR_GUARDED_BY(mutex);
  // Posted calls that were done and not told yet. Endpoints stay here, for the room they have.
  std::map<ucp_ep_h, std::vector<uint64_t>> done_ ASHLAR_GUARDED_BY(mutex);
  std::vector<ucp_ep_h> to_cut_ ASHLAR_GUARDED_BY(mutex);  // once UCX has returned
  std::map<RegionToken, std::span<std::byte>> regions_ ASHLAR_GUARDED_BY(mutex);
  std::vector<std::weak_ptr<UcxConnection>> connections_ ASHLAR_GUARDED_BY(mutex);
};

Status ucx_fault(std::string_view call, ucs_status_t status, const std::string& what);

}  // namespace ashlar::symm
