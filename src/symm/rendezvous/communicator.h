// SPDX-License-Identifier: Apache-2.0
//
// A communicator: the ranks of a group, which have joined and connected to each other, and their
// signal pads. The public class Group (ashlar/symmetric.h) is built on it.
//
// Joining, leaving and rendezvous are collective: all ranks of the group call them in the same
// order. A second thread of the same rank waits for the first. A rendezvous that times out during
// that wait has done nothing and can be repeated; a `leave` that times out fails the group. If a
// collective fails after that wait, it fails on all ranks that can reach the store, with the same
// message.
//
// If a rank dies or does not arrive in time, the group fails permanently: `failure` ends the waits
// of the other ranks. Memory that is mapped stays mapped.
#pragma once

#include <atomic>
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
#include "symm/rendezvous/rendezvous_context.h"
#include "symm/rendezvous/rendezvous_record.h"
#include "symm/signals/wait.h"
#include "symm/transports/remote_ranks.h"

namespace ashlar::symm {

inline constexpr size_t kMaxNameBytes = 64;
// Returns kInvalidArgument unless `name` has 1 to kMaxNameBytes printable characters without spaces
// and slashes. `kind` is "job" or "group".
Status check_name(std::string_view kind, std::string_view name);

struct CommunicatorOptions {
  // `job` separates jobs that share a store, and `name` the groups of a job. Groups with different
  // members may have the same name. Neither string contains a slash.
  std::string job = "job";
  std::string name = "world";
  int rank = 0;
  int world_size = 1;
  std::vector<uint64_t> members{};  // each rank's index in the job; empty means 0, 1, 2, ...
  size_t pad_bytes = 0;             // the size of the group's signal pad; the same on all ranks
  bool may_share_device = false;    // several ranks may use one device
  // Whether the group measures thresholds after joining. The same on all ranks.
  bool measures_thresholds = false;
  // The initial threshold of the group's all-reduce (thresholds.h). The same on all ranks, because
  // all ranks must choose the same algorithm.
  size_t one_shot_bytes = 0;
  bool use_multicast = true;  // use multicast if the devices of all ranks support it
  bool use_fabric = false;    // prefer fabric handles even on one machine
  // The transport to ranks on other machines; null if none is needed. Also owned by the user.
  std::shared_ptr<Transport> transport{};
  std::chrono::milliseconds key_ttl =
      std::chrono::minutes(10);           // how long keys remain after a crash
  std::function<void(Phase)> on_phase{};  // called when a phase begins
};

class Communicator {
 public:
  // REQUIRES: `heap` outlives the communicator.
  static Result<std::unique_ptr<Communicator>> join(RankHeap& heap, std::shared_ptr<Store> store,
                                                    const CommunicatorOptions& options,
                                                    Deadline deadline);
  // Fails the group for the other ranks unless `leave` was called.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const std::string& name() const { return options_.name; }
  const RankInfo& rank_info() const { return rank_info_; }
  // Returns the index of `rank` in the job.
  uint64_t member(int rank) const { return member_list_.records[rank].member; }
  const Token& token() const { return member_list_.token; }
  // Polled by waits of the group. Also owned by connections, whose failures other threads report.
  const std::shared_ptr<Failure>& failure() const { return failure_; }
  // Returns how this rank reaches the memory of `rank`. REQUIRES: 0 <= rank < world size.
  PeerAccess peer_access(int rank) const { return member_list_.access(rank_info_.rank, rank); }
  // Returns how to wait for the ranks on this machine, given the cores that they may use.
  SpinPolicy spin_policy() const;
  // Time spent in joining and in all rendezvous.
  const PhaseTimes& times() const { return times_; }
  // The group's signal pad: PeerTable::pad(rank) is `pad_bytes` of memory, initially zero. Null if
  // pad_bytes is 0.
  const std::shared_ptr<const PeerTable>& pads() const { return pads_; }

  // Returns the memory of all ranks for the allocation that covers `pointer`. Collective the first
  // time for each heap block and for each buffer of a pool; later calls return the cached table.
  // Returns kInvalidArgument if `pointer` is not symmetric memory of this rank (without
  // communication), or if the ranks passed allocations that do not match.
  Result<PeerHandle> rendezvous(const void* pointer, Deadline deadline)
      ASHLAR_EXCLUDES(collective_mutex_);
  // Allocates zeroed memory on all ranks for the group's own use. PeerTable::pad of the result
  // returns this memory. Collective.
  Result<std::shared_ptr<const PeerTable>> allocate_internal(size_t bytes, Deadline deadline)
      ASHLAR_EXCLUDES(collective_mutex_);

  // Keeps multicast objects alive until the group ends, even if all handles are destroyed. Called
  // when work of this rank has failed: other ranks may still use the objects.
  void keep_multicast() { multicast_releaser_->defer_releases(); }

  // Leaves the group. Collective. Returns an error if the group did not end cleanly, or if a remote
  // rank rejected an operation that this rank posted. If another thread of this rank is still in a
  // rendezvous at the deadline, fails the group, which ends that rendezvous. If the rendezvous does
  // not end within a few seconds, for example because the store does not respond, returns without
  // leaving; the call can be repeated.
  Status leave(Deadline deadline) ASHLAR_EXCLUDES(collective_mutex_);
  // Whether `leave` has left the group.
  bool has_left() const { return has_left_.load(std::memory_order_relaxed); }

 private:
  Communicator(RankHeap& heap, std::shared_ptr<Store> store, const CommunicatorOptions& options,
               MemberList member_list);

  // Joining and leaving: communicator.cc.
  std::string key_prefix() const;
  Status connect_all(Deadline deadline) ASHLAR_EXCLUDES(collective_mutex_);
  Status check_members() const;
  Status check_transports() const;
  Status check_devices() const;
  PeerConnections::Options connection_options() const;
  Status connect_members(Deadline deadline) ASHLAR_REQUIRES(collective_mutex_);
  Status connect_remotes(const std::vector<std::string>& addresses, Deadline deadline)
      ASHLAR_REQUIRES(collective_mutex_);
  Status announce_close(Deadline deadline) ASHLAR_REQUIRES(collective_mutex_);
  void disconnect(const Status& reason) ASHLAR_REQUIRES(collective_mutex_);
  void expire_keys(Deadline deadline) ASHLAR_REQUIRES(collective_mutex_);
  void begin_phase(Phase phase);

  // Rendezvous: rendezvous.cc.
  RendezvousContext context() ASHLAR_REQUIRES(collective_mutex_);
  // Returns null if the ranks have not completed a rendezvous for this buffer.
  std::shared_ptr<const PeerTable> cached_table(const RankHeap::BufferLocation& found) const;
  // `pool_buffer` is the part of the block that the rendezvous is for; null for the whole block.
  Result<std::shared_ptr<const PeerTable>> exchange_memory(const HeapBlock& block,
                                                           const PoolBuffer* pool_buffer,
                                                           Deadline deadline)
      ASHLAR_REQUIRES(collective_mutex_);
  Status check_pool_calls(const HeapBlock& block, const PoolBuffer* pool_buffer,
                          const std::vector<RendezvousRecord>& all, Deadline deadline)
      ASHLAR_REQUIRES(collective_mutex_);
  // Returns why this rank cannot use multicast, or an empty string if it can.
  std::string no_multicast_reason() const;

  RankHeap& heap_;
  const std::shared_ptr<Store> store_;
  const CommunicatorOptions options_;
  const RankInfo rank_info_;
  const MemberList member_list_;
  const std::shared_ptr<Failure> failure_;
  FailureRecord failure_record_;
  LeaseMonitor lease_monitor_;
  std::shared_ptr<const PeerTable> pads_;  // set by `join`, constant afterwards
  // Shared with peer tables, which may outlive the communicator.
  const std::shared_ptr<MulticastReleaser> multicast_releaser_ =
      std::make_shared<MulticastReleaser>();

  PhaseTimes times_;
  TimedMutex collective_mutex_;  // serializes collectives of this rank's threads
  Exchange exchange_ ASHLAR_GUARDED_BY(collective_mutex_);
  std::unique_ptr<PeerConnections> connections_ ASHLAR_GUARDED_BY(collective_mutex_);
  // Null if no rank is reached through the transport. Also owned by each RemoteMemory.
  std::shared_ptr<const RemoteRanks> remotes_ ASHLAR_GUARDED_BY(collective_mutex_);
  uint64_t internal_count_ ASHLAR_GUARDED_BY(collective_mutex_) = 0;
  // Written with the lock held. Relaxed, because it guards no other memory.
  std::atomic<bool> has_left_{false};
};

}  // namespace ashlar::symm
