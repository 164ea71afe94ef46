// SPDX-License-Identifier: Apache-2.0
//
// One endpoint of UCX, for one rank of one group: what is asked of it, waited for, and how it is
// lost. In peer failure mode where the transport has it; shared memory has not, and then a death is
// for others to notice. UCX never has the caller's memory, so that a call may be given up any time.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <set>
#include <string>

#include "symm/transports/transport.h"
#include "symm/transports/ucx/envelope.h"
#include "symm/transports/ucx/ucx_worker.h"

namespace ashlar::symm {

class UcxConnection {
 public:
  static Result<std::shared_ptr<UcxConnection>> open(std::shared_ptr<UcxWorker> worker,
                                                     const Envelope& address, RemotePeer peer,
                                                     Deadline deadline);
  explicit UcxConnection(std::shared_ptr<UcxWorker> worker, RemotePeer peer)
      : keeper_(std::move(worker)), worker_(*keeper_), peer_(std::move(peer)) {}
  ~UcxConnection();
  UcxConnection(const UcxConnection&) = delete;
  UcxConnection& operator=(const UcxConnection&) = delete;

  // Ok: it can be used. To be asked before anything that follows.
  Status check();
  struct Place {
    RegionToken region{};
    uint64_t offset = 0;
  };
  Status put(const Place& to, std::span<const std::byte> from, Deadline deadline);
  Status get(const Place& from, std::span<std::byte> into, Deadline deadline);
  Status post(const RegionToken& region, const AtomicOp& wanted, Deadline deadline);
  Result<uint64_t> fetch(const RegionToken& region, const AtomicOp& wanted, Deadline deadline);
  // Until all that was put and posted before is answered.
  Status quiet(Deadline deadline);
  void announce_close();
  // For good; what waits here fails.
  void close();

  // --- called from progress
  // The connection broke: the group hears of it.
  void lose_locked(const char* why) ASHLAR_REQUIRES(worker_.mutex);
  // Of a put, or of something posted.
  void note_answer_locked(uint64_t call, Outcome outcome) ASHLAR_REQUIRES(worker_.mutex);
  // Of a get, or of an atomic whose answer counts.
  void note_fetched_locked() ASHLAR_REQUIRES(worker_.mutex);
  ucp_ep_h endpoint_locked() const ASHLAR_REQUIRES(worker_.mutex) { return endpoint_; }

 private:
  ucs_status_t create(const Envelope& address, ucp_err_handling_mode_t mode);
  Status send(const Message& message, std::span<const std::byte> data, Deadline deadline);
  // Sends it once there is room among what is not answered yet.
  Status ask(const Message& message, const Awaited& awaited, std::span<const std::byte> data,
             Deadline deadline);
  Status ask_locked(Message message, const Awaited& awaited, std::span<const std::byte> data)
      ASHLAR_REQUIRES(worker_.mutex);
  Status finish(Status asked, Waiter& waiter, const char* what, Deadline deadline);
  // `is_done()` is called with the mutex held.
  template <typename IsDone>
  Status wait(IsDone is_done, const char* what, Deadline deadline);
  Status check_locked() const ASHLAR_REQUIRES(worker_.mutex);
  Status outcome_status(Outcome outcome) const;
  std::string who() const;

  const std::shared_ptr<UcxWorker> keeper_;  // also owned by the transport, and by others like this
  UcxWorker& worker_;
  const RemotePeer peer_;
  bool can_be_forced_ = false;  // constant once created

  ucp_ep_h endpoint_ ASHLAR_GUARDED_BY(worker_.mutex) = nullptr;  // null: closed
  Status lost_ ASHLAR_GUARDED_BY(worker_.mutex);
  Status refused_ ASHLAR_GUARDED_BY(worker_.mutex);  // the first put that was, until quiet says so
  bool is_parting_ ASHLAR_GUARDED_BY(worker_.mutex) = false;
  std::set<uint64_t> unanswered_ ASHLAR_GUARDED_BY(worker_.mutex);  // puts and posts
  size_t fetching_count_ ASHLAR_GUARDED_BY(worker_.mutex) = 0;      // other calls on their way
};

}  // namespace ashlar::symm
