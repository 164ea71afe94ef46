// SPDX-License-Identifier: Apache-2.0
//
// A UCX connection to one rank of one group: sends calls, waits for responses, detects failures.
// Uses UCX's peer failure mode where available. UCX's shared memory transport lacks this mode; if
// that transport is used, only leases detect dead peers. UCX never reads or writes the caller's
// memory, so a call can be abandoned at any time.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <set>
#include <string>

#include "symm/transports/transport.h"
#include "symm/transports/ucx/envelope.h"
#include "symm/transports/ucx/ucx_worker.h"

namespace ashlar::symm {

struct RegionOffset {
  RegionToken region{};
  uint64_t offset = 0;
};

class UcxConnection {
 public:
  static Result<std::shared_ptr<UcxConnection>> open(std::shared_ptr<UcxWorker> worker,
                                                     const Envelope& address, RemotePeer peer,
                                                     Deadline deadline);
  explicit UcxConnection(std::shared_ptr<UcxWorker> worker, RemotePeer peer)
      : worker_owner_(std::move(worker)), worker_(*worker_owner_), peer_(std::move(peer)) {}
  ~UcxConnection();
  UcxConnection(const UcxConnection&) = delete;
  UcxConnection& operator=(const UcxConnection&) = delete;

  // Returns an error if the connection is closed or lost, or in a forked child.
  Status check();
  Status put(const RegionOffset& to, std::span<const std::byte> from, Deadline deadline);
  Status get(const RegionOffset& from, std::span<std::byte> into, Deadline deadline);
  Status post(const RegionToken& region, const AtomicOp& wanted, Deadline deadline);
  Result<uint64_t> fetch(const RegionToken& region, const AtomicOp& wanted, Deadline deadline);
  // Waits for the responses to all earlier puts and posts. Returns the first error of a put or post
  // since the last call.
  Status quiet(Deadline deadline);
  // From now on, a lost connection is not reported as a failure of the group.
  void announce_close();
  // Closes the connection permanently. Calls that wait for responses fail. Waits until
  // `flush_deadline` for data that is still being sent. If data is left, UCX's endpoint stays open,
  // without being used, until the worker ends: UCX 1.13 may crash if an endpoint with unsent data
  // is closed by force and the peer then ends the connection.
  void close(Deadline flush_deadline);

  // Marks the connection as lost and, unless `announce_close` was called, reports the failure to
  // the group.
  void fail_locked(const char* why) ASHLAR_REQUIRES(worker_.mutex);
  // Handles the response to a hello, put or posted atomic.
  void complete_posted_locked(uint64_t call, ResponseCode code) ASHLAR_REQUIRES(worker_.mutex);
  // Handles the response to a get or fetching atomic.
  void complete_fetch_locked() ASHLAR_REQUIRES(worker_.mutex);
  ucp_ep_h endpoint_locked() const ASHLAR_REQUIRES(worker_.mutex) { return endpoint_; }

 private:
  ucs_status_t create(const Envelope& address, ucp_err_handling_mode_t mode);
  Status post_message(const Message& message, std::span<const std::byte> data, Deadline deadline);
  // Sends a call as soon as fewer than kMaxPendingCalls of its kind are pending.
  Status send_call(const Message& message, const PendingCall& pending,
                   std::span<const std::byte> data, Deadline deadline);
  Status send_call_locked(Message message, const PendingCall& pending,
                          std::span<const std::byte> data) ASHLAR_REQUIRES(worker_.mutex);
  // Waits for the responses that `waiter` expects, unless `sent` is an error. On return, the worker
  // no longer refers to `waiter`.
  Status wait_for_responses(Status sent, ResponseWaiter& waiter, const char* what,
                            Deadline deadline);
  // Waits until `is_done()`, which is called with the worker's mutex held. `what` names the call in
  // error messages.
  template <typename IsDone>
  Status wait(IsDone is_done, const char* what, Deadline deadline);
  Status check_locked() const ASHLAR_REQUIRES(worker_.mutex);
  Status response_status(ResponseCode code) const;
  std::string peer_name() const;
  bool flush(ucp_ep_h endpoint, Deadline deadline) ASHLAR_EXCLUDES(worker_.mutex);
  void close_endpoint(ucp_ep_h endpoint) ASHLAR_EXCLUDES(worker_.mutex);

  const std::shared_ptr<UcxWorker> worker_owner_;  // also owned by the transport and its regions
  UcxWorker& worker_;
  const RemotePeer peer_;
  bool supports_forced_close_ = false;  // constant after `open`

  ucp_ep_h endpoint_ ASHLAR_GUARDED_BY(worker_.mutex) = nullptr;  // null if closed
  Status failure_ ASHLAR_GUARDED_BY(worker_.mutex);
  Status first_error_ ASHLAR_GUARDED_BY(worker_.mutex);  // a posted call's error; reset by `quiet`
  bool has_announced_close_ ASHLAR_GUARDED_BY(worker_.mutex) = false;
  std::set<uint64_t> posted_calls_
      ASHLAR_GUARDED_BY(worker_.mutex);                      // the posted calls without a response
  size_t fetch_count_ ASHLAR_GUARDED_BY(worker_.mutex) = 0;  // gets and fetches in flight
};

}  // namespace ashlar::symm
