// SPDX-License-Identifier: Apache-2.0
//
// Teams, active sets and contexts. Handles are keys of a table, so that stale handles are detected.
// A team joins its group only at its first collective, because many teams only translate PE
// numbers, and because an active set has no create call. Thread safe, but a team must not be
// destroyed while another thread uses it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ashlar/shmem/shmem_types.h"
#include "base/mutex.h"
#include "shmem/pe_group.h"
#include "symm/core/timed_mutex.h"

namespace ashlar::shmem {

class Team {
 public:
  // `pes` are world PE numbers and include `own_world_pe`.
  Team(std::string name, std::vector<int> pes, int own_world_pe, int requested_context_count = 0);

  const std::string& name() const { return name_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(pes_.size()); }
  const std::vector<int>& pes() const { return pes_; }
  // Returns the number of contexts that the program requested for the team. More may be created.
  int requested_context_count() const { return requested_context_count_; }
  // Returns the world PE number of PE `pe` of this team. Throws if the team has no PE `pe`.
  int world_pe(int pe) const;
  // Converts a world PE number to the PE's number in this team; -1 if the PE is not in this team.
  int pe_of(int world_pe) const;
  // Issues the index of a new team that is split from this team. Every PE of the team must call
  // this at each split.
  int issue_child_index() { return ++child_count_; }

  // Returns the group that the team has joined, or null before the first collective.
  PeGroup* pe_group() const { return joined_group_.load(std::memory_order_acquire); }
  // Returns the team's group. The first call joins the group with `join`; concurrent calls wait for
  // the first. A lock for all teams could deadlock, since PEs may join teams in different orders.
  PeGroup& join_once(const std::function<std::unique_ptr<PeGroup>()>& join)
      ASHLAR_EXCLUDES(join_mutex_);

 private:
  const std::string name_;
  const std::vector<int> pes_;
  const int requested_context_count_;
  int rank_ = -1;
  int child_count_ = 0;  // the last index issued; equal on all PEs of the team

  symm::TimedMutex join_mutex_;
  std::unique_ptr<PeGroup> pe_group_ ASHLAR_GUARDED_BY(join_mutex_);
  // Equals pe_group_.get(); lets `pe_group` read without the lock. Stored once, with release order.
  std::atomic<PeGroup*> joined_group_{nullptr};
};

// The timeouts of the attempts to join a team's group. A timed-out attempt is repeated, because the
// other PEs may reach the team's first collective much later. The timeouts grow, because on a busy
// machine the attempt itself may take longer than the first timeout, and would then never succeed.
// They are limited, because PEs that failed are only detected between attempts.
class JoinTimeouts {
 public:
  static constexpr std::chrono::seconds kShortest{5};
  static constexpr std::chrono::seconds kLongest{40};

  std::chrono::seconds next() { return std::exchange(next_, std::min(2 * next_, kLongest)); }

 private:
  std::chrono::seconds next_ = kShortest;
};

// A set of `size` PEs of the world: `start`, `start` + 2^`log_stride`, and so on.
struct ActiveSet {
  int start = 0;
  int log_stride = 0;
  int size = 0;
};

class Teams {
 public:
  // `heap` and `memory` must outlive this object.
  Teams(symm::Heap& heap, const symm::SymmetricBuffer& memory,
        std::unique_ptr<PeGroup> world_group);

  Team& world() { return *world_; }
  // Returns null if the handle is invalid or stale.
  Team* find(shmem_team_t team) ASHLAR_EXCLUDES(mutex_);
  // Throws if the handle is invalid or stale.
  Team& at(shmem_team_t team) ASHLAR_EXCLUDES(mutex_);
  // Returns the team of an active set. Throws if the set is not within the world or does not
  // contain this PE.
  Team& at(const ActiveSet& set) ASHLAR_EXCLUDES(mutex_);
  // Returns the team's group. The first call for a team joins the group, which is collective.
  PeGroup& group_for(Team& team);

  // The arguments of a split. `index` is from Team::issue_child_index. `pes` contains this PE.
  struct Child {
    int index = 0;
    std::vector<int> pes{};
    int requested_context_count = 0;
  };
  // Adds a team split from `parent`.
  shmem_team_t add(Team& parent, Child child) ASHLAR_EXCLUDES(mutex_);
  // Collective. Throws if the team is unknown or predefined.
  void destroy(shmem_team_t team) ASHLAR_EXCLUDES(mutex_);
  // Leaves all joined groups except the world's. Collective.
  void leave_all() ASHLAR_EXCLUDES(mutex_);

  shmem_ctx_t add_context(shmem_team_t team) ASHLAR_EXCLUDES(mutex_);
  // Returns the context's team, or SHMEM_TEAM_INVALID if the context is unknown.
  shmem_team_t team_of(shmem_ctx_t context) ASHLAR_EXCLUDES(mutex_);
  void destroy_context(shmem_ctx_t context) ASHLAR_EXCLUDES(mutex_);

 private:
  static constexpr uintptr_t kReservedHandleCount = 16;

  int my_pe() const { return world_->rank(); }
  std::unique_ptr<PeGroup> join(const Team& team);

  symm::Heap& heap_;
  const symm::SymmetricBuffer& memory_;
  const std::unique_ptr<Team> world_;
  const std::unique_ptr<Team> shared_;  // the PEs whose memory this PE has mapped

  Mutex mutex_;
  uintptr_t handle_count_ ASHLAR_GUARDED_BY(mutex_) = kReservedHandleCount;
  std::map<shmem_team_t, std::unique_ptr<Team>> teams_ ASHLAR_GUARDED_BY(mutex_);
  std::map<std::tuple<int, int, int>, std::unique_ptr<Team>> active_sets_ ASHLAR_GUARDED_BY(mutex_);
  std::map<shmem_ctx_t, shmem_team_t> contexts_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::shmem
