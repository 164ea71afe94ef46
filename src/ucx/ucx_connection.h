// One endpoint of UCX, for one rank of one group: what is asked of it, waited for, and how it is
// lost. Peer failure mode where the transport has it; shared memory has not, and then the caller's
// memory is never given to UCX, since nothing would take it back.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <set>
#include <string>

#include "symm/transport.h"
#include "ucx/envelope.h"
#include "ucx/ucx_worker.h"

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

  Result<ucp_rkey_h> open_key(const Envelope& key);
  void close_key(ucp_rkey_h key);

  struct Place {
    uint64_t address = 0;
    ucp_rkey_h key = nullptr;
  };
  Status put(const Place& to, std::span<const std::byte> from, Deadline deadline);
  Status get(const Place& from, std::span<std::byte> into, Deadline deadline);
  // With `answer` null it does not wait for the other side.
  Status atomic(const Place& at, const AtomicCall& call, uint64_t* answer, Deadline deadline);
  Status fence(Deadline deadline);
  Status quiet(Deadline deadline);
  void farewell();
  // For good; what waits here fails.
  void close();

  // The connection broke: the group hears of it.
  void lose_locked(ucs_status_t status) ASHLAR_REQUIRES(worker_.mutex);

 private:
  enum class Memory { kOwn, kCallers };  // whose memory UCX has during a call
  struct Wish {
    const char* what = "";  // for sentences
    Memory memory = Memory::kOwn;
    bool is_put = false;  // a fence has to care
  };

  ucs_status_t create(const Envelope& address, ucp_err_handling_mode_t mode);
  // `post(endpoint, operation, param)` asks UCX; `finish(operation)` takes what it answered.
  template <typename Post, typename Finish>
  Status call(const Wish& wish, Deadline deadline, Post post, Finish finish);
  // Until UCX is done with it, or it is given up: then `operation` may still be UCX's.
  Status wait(Operation& operation, const Wish& wish, Deadline deadline);
  Status give_up(Operation& operation, const Wish& wish, Status why);
  Status check_locked() const ASHLAR_REQUIRES(worker_.mutex);
  Status outcome_locked(const Operation& operation, const Wish& wish)
      ASHLAR_REQUIRES(worker_.mutex);
  std::string who() const;

  const std::shared_ptr<UcxWorker> keeper_;  // also owned by the transport, and by others like this
  UcxWorker& worker_;
  const RemotePeer peer_;
  bool can_be_forced_ = false;  // constant once created

  ucp_ep_h endpoint_ ASHLAR_GUARDED_BY(worker_.mutex) = nullptr;  // null: closed
  Status lost_ ASHLAR_GUARDED_BY(worker_.mutex);
  bool is_parting_ ASHLAR_GUARDED_BY(worker_.mutex) = false;
  uint64_t put_count_ ASHLAR_GUARDED_BY(worker_.mutex) = 0;
  uint64_t quiet_count_ ASHLAR_GUARDED_BY(worker_.mutex) = 0;  // of these, so many are done
  std::set<ucp_rkey_h> keys_ ASHLAR_GUARDED_BY(worker_.mutex);
};

}  // namespace ashlar::symm
