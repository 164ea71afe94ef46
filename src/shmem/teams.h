// SPDX-License-Identifier: Apache-2.0
//
// Teams, active sets and contexts. Handles are looked up here, so that one that is stale is found
// out. A team knows its PEs from the beginning, but its group is joined at its first collective:
// most are made for translating numbers only, and an active set is never announced at all. Thread
// safe; a team that is destroyed while another thread uses it is a mistake, as in OpenSHMEM.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "ashlar/shmem/shmem_types.h"
#include "base/mutex.h"
#include "shmem/meeting.h"
#include "symm/core/timed_mutex.h"

namespace ashlar::shmem {

class Team {
 public:
  // `pes`: as they are numbered in the world, this one among them.
  Team(std::string name, std::vector<int> pes, int own_world_pe);

  const std::string& name() const { return name_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(pes_.size()); }
  const std::vector<int>& pes() const { return pes_; }
  // Throws if there is none.
  int world_pe(int pe) const;
  // -1: it is not in this team.
  int pe_of(int world_pe) const;
  int next_child() { return ++child_count_; }

  // Null: they have not met.
  Meeting* meeting() const { return met_.load(std::memory_order_acquire); }
  // By `join()`, if they have not met. Threads that come at once wait for the one that came first;
  // those of other teams do not: PEs may begin with their teams in different orders.
  Meeting& meet(const std::function<std::unique_ptr<Meeting>()>& join) ASHLAR_EXCLUDES(joining_);

 private:
  const std::string name_;
  const std::vector<int> pes_;
  int rank_ = -1;
  int child_count_ = 0;  // teams that were made of it, the same on all its PEs

  symm::TimedMutex joining_;
  std::unique_ptr<Meeting> meeting_ ASHLAR_GUARDED_BY(joining_);
  // What meeting_ points to. Stored once, after it was made: release and acquire show it whole.
  std::atomic<Meeting*> met_{nullptr};
};

struct ActiveSet {
  int start = 0;
  int log_stride = 0;
  int size = 0;
};

class Teams {
 public:
  // `heap` and `memory` outlive this. `everybody`: the world's meeting.
  Teams(symm::Heap& heap, const symm::Buffer& memory, std::unique_ptr<Meeting> everybody);

  Team& world() { return *world_; }
  // Null: no such team.
  Team* find(shmem_team_t team) ASHLAR_EXCLUDES(mutex_);
  // Throws if there is none.
  Team& at(shmem_team_t team) ASHLAR_EXCLUDES(mutex_);
  // Throws if there is no such set, or this PE is not in it.
  Team& at(const ActiveSet& set) ASHLAR_EXCLUDES(mutex_);
  // Joined if it was not yet. Collective.
  Meeting& meet(Team& team);

  // For those who are in it. REQUIRES: this PE is.
  shmem_team_t add(Team& parent, std::vector<int> pes, int child) ASHLAR_EXCLUDES(mutex_);
  // Collective. Throws if it is none that was made.
  void destroy(shmem_team_t team) ASHLAR_EXCLUDES(mutex_);
  // All that were joined, but for the world. Collective.
  void leave_all() ASHLAR_EXCLUDES(mutex_);

  shmem_ctx_t add_context(shmem_team_t team) ASHLAR_EXCLUDES(mutex_);
  // The team whose numbers count; SHMEM_TEAM_INVALID: no such context.
  shmem_team_t team_of(shmem_ctx_t context) ASHLAR_EXCLUDES(mutex_);
  void destroy_context(shmem_ctx_t context) ASHLAR_EXCLUDES(mutex_);

 private:
  static constexpr uintptr_t kFirstOwnHandle = 16;

  int own_pe() const { return world_->rank(); }
  std::unique_ptr<Meeting> join(const Team& team);

  symm::Heap& heap_;
  const symm::Buffer& memory_;
  const std::unique_ptr<Team> world_;
  const std::unique_ptr<Team> shared_;  // those whose memory is within reach

  Mutex mutex_;
  uintptr_t handle_count_ ASHLAR_GUARDED_BY(mutex_) = kFirstOwnHandle;
  std::map<shmem_team_t, std::unique_ptr<Team>> teams_ ASHLAR_GUARDED_BY(mutex_);
  std::map<std::tuple<int, int, int>, std::unique_ptr<Team>> sets_ ASHLAR_GUARDED_BY(mutex_);
  std::map<shmem_ctx_t, shmem_team_t> contexts_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::shmem
