// SPDX-License-Identifier: Apache-2.0
//
// The ranks of a group that have met, know each other, and have a pad in common; what a user calls
// a group (ashlar/symmetric.h) is made of it. Joining, leaving and rendezvous are collective: all
// ranks of the group do them, in the same order; another thread of the same rank waits its turn,
// and gets kTimeout if that does not come in time: nothing was done, and it can be called again.
// What fails for one fails for all, with the same sentence.
//
// A rank that dies, or does not come in time, fails the group for good: `failure` says so to
// everybody who waits for anything. Memory that is mapped stays mapped.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/store.h"
#include "symm/backends/multicast/multicast.h"
#include "symm/channel/peer_connections.h"
#include "symm/core/failure.h"
#include "symm/core/phase_times.h"
#include "symm/core/timed_mutex.h"
#include "symm/membership/exchange.h"
#include "symm/membership/failure_record.h"
#include "symm/membership/lease_monitor.h"
#include "symm/membership/member_list.h"
#include "symm/memory/peer_table.h"
#include "symm/memory/rank_heap.h"
#include "symm/signals/wait.h"
#include "symm/transports/remote_ranks.h"

namespace ashlar::symm {

struct RendezvousRecord;

inline constexpr size_t kMaxNameBytes = 64;
// kInvalidArgument: it cannot be the name of a job or a group. `what`: "group".
Status check_name(std::string_view what, std::string_view name);

struct CommunicatorOptions {
  std::string job = "job";     // jobs that share a store do not meet; no slashes, here and below
  std::string name = "world";  // groups of one job do not meet, nor do those of other members
  int rank = 0;
  int world_size = 1;
  std::vector<uint64_t> members{};   // of the job, by rank; empty: 0, 1, 2, ...
  size_t pad_bytes = 0;              // of the group's own pad; the same on all ranks
  bool may_share_device = false;     // several ranks on one device
  bool measures_thresholds = false;  // what the user does next, as all ranks do or none
  bool use_multicast = true;         // where all ranks' devices have it
  bool use_fabric = false;           // where all ranks' memory travels so, also on one machine
  // The way to ranks on other machines; null: there are none. Also owned by the user.
  std::shared_ptr<Transport> transport{};
  std::chrono::milliseconds key_ttl = std::chrono::minutes(10);  // of what a crash leaves
  std::function<void(Phase)> on_phase{};
};

class Communicator {
 public:
  // `arena` outlives it.
  static Result<std::unique_ptr<Communicator>> join(RankHeap& heap, std::shared_ptr<Store> store,
                                                    const CommunicatorOptions& options,
                                                    Deadline deadline);
  // Without leave before, the group fails for the others.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const std::string& name() const { return options_.name; }
  const RankInfo& rank_info() const { return rank_info_; }
  uint64_t member(int rank) const { return member_list_.records[rank].member; }
  const Token& token() const { return member_list_.token; }
  // Everybody who waits for the group looks here. Also owned by links, whose ends come at any time.
  const std::shared_ptr<Failure>& failure() const { return failure_; }
  // How the rank's memory is reached: direct if it is a device's, and on one machine, which is one
  // kernel, one network namespace, in which abstract sockets live, and one set of users.
  // REQUIRES: 0 <= rank < world size.
  PeerAccess peer_access(int rank) const;
  // Of waits for ranks on this machine, as suits the cores that all of them may use.
  SpinPolicy spin_policy() const;
  // Where the time of joining and of all rendezvous went.
  const PhaseTimes& times() const { return times_; }
  // The group's own pad: Peers::pad(rank) is pad_bytes of zeroes at first. Null: pad_bytes is 0.
  const std::shared_ptr<const PeerTable>& pads() const { return pads_; }

  // All ranks' memory of the block that covers `pointer`. The first time for each block it is
  // collective; afterwards the same table is returned at once.
  // kInvalidArgument: no symmetric memory of this rank (at once, and only here); or what the ranks
  // brought does not match.
  Result<PeerHandle> rendezvous(const void* pointer, Deadline deadline)
      ASHLAR_EXCLUDES(collective_mutex_);
  // Zeroed memory of all ranks that no block knows: Peers::pad. Collective.
  Result<std::shared_ptr<const PeerTable>> allocate_internal(size_t bytes, Deadline deadline)
      ASHLAR_EXCLUDES(collective_mutex_);

  // Work of this rank ended badly, and others may not be done with theirs: its multicast outlives
  // the memory's last handle, until the group is over.
  void keep_multicast() { multicast_keeper_->keep_from_now_on(); }

  // Collective. Returns why it was no clean end; the group is over in any case, also for a thread
  // that is still in the way at the deadline.
  Status leave(Deadline deadline) ASHLAR_EXCLUDES(collective_mutex_);

 private:
  Communicator(RankHeap& heap, std::shared_ptr<Store> store, const CommunicatorOptions& options,
               MemberList member_list);

  std::string prefix() const;
  Status introduce(Deadline deadline) ASHLAR_EXCLUDES(collective_mutex_);
  Status check_members() const;
  Status check_transports() const;
  Status check_devices() const;
  PeerConnections::Options connection_options() const;
  Status connect(Deadline deadline) ASHLAR_REQUIRES(collective_mutex_);
  Status connect_remotes(Deadline deadline) ASHLAR_REQUIRES(collective_mutex_);
  Status finish(Deadline deadline) ASHLAR_REQUIRES(collective_mutex_);
  void part(const Status& reason) ASHLAR_REQUIRES(collective_mutex_);
  void abandon_keys(Deadline deadline) ASHLAR_REQUIRES(collective_mutex_);
  void reach(Phase phase);

  // --- rendezvous.cc
  // Null: the ranks are to meet first.
  std::shared_ptr<const PeerTable> table_of(const RankHeap::Found& found) const;
  // `carving`: the part of the block that is met for; null: all of it.
  Result<std::shared_ptr<const PeerTable>> meet(const HeapBlock& block,
                                                const PoolBuffer* pool_buffer, Deadline deadline)
      ASHLAR_REQUIRES(collective_mutex_);
  Status compare_acts(const HeapBlock& block, const PoolBuffer* pool_buffer,
                      const std::vector<RendezvousRecord>& all, Deadline deadline)
      ASHLAR_REQUIRES(collective_mutex_);
  // What a rank has shared with those on other machines, or why it could not.
  struct Sharing {
    Status outcome{};
    RemoteMemory::Own remote{};
  };
  Sharing share_with_remotes(const HeapBlock& block, RendezvousRecord& own)
      ASHLAR_REQUIRES(collective_mutex_);

  // --- handing_over.cc
  bool is_on_one_machine() const;
  // There is no other way than fabric handles.
  bool needs_fabric() const;
  // By what the ranks said when they joined. Empty: memory is to travel as fabric handles.
  std::string why_no_fabric() const;
  // kInvalidArgument: some rank's memory cannot get to some other.
  Status check_handle_types() const;
  // The handle of the block, or why there is none, in what this rank brings.
  void offer(const HeapBlock& block, RendezvousRecord& own) const;
  Result<PeerTable::Handed> hand_round(const HeapBlock& block,
                                       const std::vector<RendezvousRecord>& all, Sharing own,
                                       Deadline deadline) ASHLAR_REQUIRES(collective_mutex_);
  Result<PeerTable::Handed> hand_by_fabric(const HeapBlock& block,
                                           const std::vector<RendezvousRecord>& all,
                                           Deadline deadline) ASHLAR_REQUIRES(collective_mutex_);
  Result<std::shared_ptr<MappedMemory>> import_from(const std::vector<RendezvousRecord>& all,
                                                    int rank);
  Result<PeerTable::Handed> hand_by_descriptor(const HeapBlock& block,
                                               const std::vector<RendezvousRecord>& all,
                                               Sharing own, Deadline deadline)
      ASHLAR_REQUIRES(collective_mutex_);
  Status hand_over(const HeapBlock& block, uint64_t sequence, Deadline deadline)
      ASHLAR_REQUIRES(collective_mutex_);
  Result<std::vector<PeerTable::Peer>> take(const HeapBlock& block,
                                            const std::vector<RendezvousRecord>& all,
                                            uint64_t sequence, Deadline deadline)
      ASHLAR_REQUIRES(collective_mutex_);
  bool is_of_this_process(int rank) const;
  Result<std::shared_ptr<MappedMemory>> at_hand(const HeapBlock& block,
                                                const std::vector<RendezvousRecord>& all, int rank);
  Result<std::unique_ptr<const RemoteMemory>> take_remote(RemoteMemory::Own own,
                                                          const std::vector<RendezvousRecord>& all)
      ASHLAR_REQUIRES(collective_mutex_);

  // --- multicast_set_up.cc
  // Empty: this rank can, as far as it knows.
  std::string why_no_multicast() const;
  // Fails only with the group.
  Result<MulticastOutcome> set_up_multicast(const HeapBlock& block,
                                            const std::vector<RendezvousRecord>& all,
                                            Deadline deadline) ASHLAR_REQUIRES(collective_mutex_);
  Result<MulticastHandle> tell_all(const FabricHandle& created, Deadline deadline)
      ASHLAR_REQUIRES(collective_mutex_);
  Result<MulticastHandle> hand_out(std::shared_ptr<const UniqueFd> created, Deadline deadline)
      ASHLAR_REQUIRES(collective_mutex_);
  Result<MulticastOutcome> without(const Status& reason) const;

  RankHeap& heap_;
  const std::shared_ptr<Store> store_;
  const CommunicatorOptions options_;
  const RankInfo rank_info_;
  const MemberList member_list_;
  const std::shared_ptr<Failure> failure_;
  FailureRecord failure_record_;
  LeaseMonitor lease_monitor_;
  std::shared_ptr<const PeerTable> pads_;  // constant once joined
  // Also owned by tables of peers, which may be the last to go.
  const std::shared_ptr<MulticastKeeper> multicast_keeper_ = std::make_shared<MulticastKeeper>();

  PhaseTimes times_;
  TimedMutex collective_mutex_;  // one collective act at a time
  Exchange exchange_ ASHLAR_GUARDED_BY(collective_mutex_);
  std::unique_ptr<PeerConnections> connections_ ASHLAR_GUARDED_BY(collective_mutex_);
  // Null: all ranks are on this machine. Also owned by what is reached through it.
  std::shared_ptr<const RemoteRanks> remotes_ ASHLAR_GUARDED_BY(collective_mutex_);
  uint64_t internal_count_ ASHLAR_GUARDED_BY(collective_mutex_) = 0;
  bool is_over_ ASHLAR_GUARDED_BY(collective_mutex_) = false;
};

}  // namespace ashlar::symm
