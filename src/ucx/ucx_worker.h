// UCX's context and worker of one process, and the thread that answers others: over TCP, what is
// put here is written by whoever calls progress here. One mutex for all calls of UCX; whoever waits
// for something calls progress itself meanwhile, and the thread keeps out of its way.
#pragma once

#include <pthread.h>
#include <ucp/api/ucp.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ashlar/status.h"
#include "ashlar/ucx_transport.h"
#include "base/mutex.h"

namespace ashlar::symm {

class UcxConnection;

// UCX says on standard output what its caller is told by a status: not while this is there, on this
// thread.
class Hush {
 public:
  Hush();
  ~Hush();
  Hush(const Hush&) = delete;
  Hush& operator=(const Hush&) = delete;
};

// One call of UCX. It is used again once UCX is done with it and nobody waits for it, so that what
// UCX writes late has a place.
struct Operation {
  ucs_status_t status = UCS_OK;  // UCS_INPROGRESS: UCX has it
  bool has_waiter = false;
  UcxConnection* connection = nullptr;  // who hears of failures; null: nobody any more
  class UcxWorker* worker = nullptr;
  uint64_t operand = 0;
  uint64_t answer = 0;
  std::vector<std::byte> staged{};
};

class UcxWorker {
 public:
  static Result<std::shared_ptr<UcxWorker>> open(const UcxOptions& options);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  const std::string& address() const { return address_; }
  void progress() ASHLAR_EXCLUDES(mutex);
  void end() ASHLAR_EXCLUDES(mutex, ending_);
  void add(const std::shared_ptr<UcxConnection>& connection) ASHLAR_EXCLUDES(mutex);
  std::vector<std::shared_ptr<UcxConnection>> connections() ASHLAR_EXCLUDES(mutex);

  // kUsage: it has ended.
  Status check_locked() const ASHLAR_REQUIRES(mutex);
  ucp_context_h context() const ASHLAR_REQUIRES(mutex) { return context_; }
  ucp_worker_h worker() const ASHLAR_REQUIRES(mutex) { return worker_; }
  Operation& take_locked(UcxConnection* connection) ASHLAR_REQUIRES(mutex);
  // What UCX answered to a call with `operation`: notes whether it has it now.
  void note_locked(Operation& operation, ucs_status_ptr_t answer) ASHLAR_REQUIRES(mutex);
  // Nobody waits for it any more.
  void leave_locked(Operation& operation) ASHLAR_REQUIRES(mutex);
  // Nobody hears of what the connection began.
  void forget_locked(const UcxConnection* connection) ASHLAR_REQUIRES(mutex);
  // Something is with UCX, and nobody who waits calls progress: the thread has to.
  void wake_locked() ASHLAR_REQUIRES(mutex);
  Result<ucp_mem_h> map_locked(void* start, size_t bytes) ASHLAR_REQUIRES(mutex);
  void unmap_locked(ucp_mem_h memory) ASHLAR_REQUIRES(mutex);
  void give_back(ucp_mem_h memory) ASHLAR_EXCLUDES(mutex);

  static void on_done(void* request, ucs_status_t status, void* operation);

  // While it is there, the caller calls progress, and the thread need not.
  class Driving {
   public:
    // The count is a hint: whoever reads an old one looks once too often or 50 us late.
    explicit Driving(UcxWorker& worker) : count_(worker.drivers_) {
      count_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Driving() { count_.fetch_sub(1, std::memory_order_relaxed); }
    Driving(const Driving&) = delete;
    Driving& operator=(const Driving&) = delete;

   private:
    std::atomic<int>& count_;
  };

  Mutex mutex;                      // every call of UCX; sockets, too
  std::condition_variable changed;  // an operation is done

 private:
  explicit UcxWorker(const UcxOptions& options) : busy_poll_(options.busy_poll) {}

  Status start(const UcxOptions& options) ASHLAR_EXCLUDES(mutex);
  Status start_thread() ASHLAR_EXCLUDES(mutex);
  void answer_others() ASHLAR_EXCLUDES(mutex);
  void destroy_locked() ASHLAR_REQUIRES(mutex);

  const std::chrono::microseconds busy_poll_;
  std::string address_;  // constant once started
  int event_fd_ = -1;    // UCX's own; likewise
  pthread_t thread_{};
  bool has_thread_ = false;
  std::atomic<int> drivers_{0};
  std::atomic<bool> is_ending_{false};  // read by the thread alone, which is joined afterwards

  Mutex ending_;  // one end at a time; taken before mutex
  ucp_context_h context_ ASHLAR_GUARDED_BY(mutex) = nullptr;
  ucp_worker_h worker_ ASHLAR_GUARDED_BY(mutex) = nullptr;  // null: over
  size_t with_ucx_count_ ASHLAR_GUARDED_BY(mutex) = 0;
  std::vector<std::unique_ptr<Operation>> operations_ ASHLAR_GUARDED_BY(mutex);
  std::vector<Operation*> idle_ ASHLAR_GUARDED_BY(mutex);
  std::set<ucp_mem_h> mapped_ ASHLAR_GUARDED_BY(mutex);
  std::vector<std::weak_ptr<UcxConnection>> connections_ ASHLAR_GUARDED_BY(mutex);
};

Status ucx_fault(std::string_view call, ucs_status_t status, const std::string& what);

}  // namespace ashlar::symm
