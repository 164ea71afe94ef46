// SPDX-License-Identifier: Apache-2.0
//
// Looking up, joining and leaving.
#include "shmem/teams.h"

#include <algorithm>

#include "shmem/failing.h"
#include "symm/core/hash.h"

namespace ashlar::shmem {
namespace {

// How long one waits for the others of a team at its first collective before looking whether the
// world still works: they may be late for reasons of their own.
constexpr std::chrono::seconds kJoiningTurn{5};

std::vector<int> all_pes(const Meeting& everybody) {
  std::vector<int> pes;
  for (int pe = 0; pe < everybody.world_size(); ++pe) pes.push_back(pe);
  return pes;
}

std::vector<int> near_pes(Meeting& everybody) {
  std::vector<int> pes;
  for (int pe = 0; pe < everybody.world_size(); ++pe) {
    if (everybody.group().peer_access(pe) == symm::PeerAccess::kDirect) pes.push_back(pe);
  }
  return pes;
}

std::unique_ptr<Team> world_of(std::unique_ptr<Meeting> everybody) {
  auto world =
      std::make_unique<Team>(everybody->group().name(), all_pes(*everybody), everybody->rank());
  world->meet([&] { return std::move(everybody); });
  return world;
}

// Names of groups end somewhere; those of teams of teams go on, as a hash of what they are of.
constexpr size_t kLongName = 40;

std::string child_name(const std::string& parent, int child) {
  if (parent.size() <= kLongName) return text(parent, '.', child);
  return text("team-", std::hex, symm::hash_append(symm::kHashSeed, parent), std::dec, '.', child);
}

}  // namespace

// --- Team ---------------------------------------------------------------------------------------

Team::Team(std::string name, std::vector<int> pes, int own_world_pe)
    : name_(std::move(name)), pes_(std::move(pes)), rank_(pe_of(own_world_pe)) {}

int Team::world_pe(int pe) const {
  if (pe < 0 || pe >= size()) {
    refuse("PE ", pe, ": expected 0 to ", size() - 1, ", since the team has ", size(), " PEs");
  }
  return pes_[static_cast<size_t>(pe)];
}

int Team::pe_of(int world_pe) const {
  const auto found = std::find(pes_.begin(), pes_.end(), world_pe);
  return found == pes_.end() ? -1 : static_cast<int>(found - pes_.begin());
}

Meeting& Team::meet(const std::function<std::unique_ptr<Meeting>()>& join) {
  if (Meeting* met = meeting(); met != nullptr) return *met;
  if (!joining_.try_lock_until(Deadline::never()))
    throw TimeoutError(symm::TimedMutex::timeout_error("joining"));
  const symm::TimedLock lock(joining_);
  if (meeting_ == nullptr) {
    meeting_ = join();
    met_.store(meeting_.get(), std::memory_order_release);
  }
  return *meeting_;
}

// --- Teams --------------------------------------------------------------------------------------

Teams::Teams(symm::Heap& heap, const symm::Buffer& memory, std::unique_ptr<Meeting> everybody)
    : heap_(heap),
      memory_(memory),
      world_(world_of(std::move(everybody))),
      shared_(std::make_unique<Team>("shared", near_pes(*world_->meeting()), world_->rank())) {}

Team* Teams::find(shmem_team_t team) {
  if (team == SHMEM_TEAM_WORLD) return world_.get();
  if (team == SHMEM_TEAM_SHARED) return shared_.get();
  MutexLock lock(mutex_);
  const auto found = teams_.find(team);
  return found == teams_.end() ? nullptr : found->second.get();
}

Team& Teams::at(shmem_team_t team) {
  Team* found = find(team);
  if (found == nullptr) {
    refuse(team == SHMEM_TEAM_INVALID ? "the team is SHMEM_TEAM_INVALID"
                                      : "there is no such team: was it destroyed?");
  }
  return *found;
}

Team& Teams::at(const ActiveSet& set) {
  const auto words = [&set] {
    return text("the active set (PE_start ", set.start, ", logPE_stride ", set.log_stride,
                ", PE_size ", set.size, ')');
  };
  if (set.start < 0 || set.size < 1 || set.log_stride < 0 || set.log_stride > 16 ||
      set.start + (int64_t{set.size} - 1) * (int64_t{1} << set.log_stride) >= world_->size()) {
    refuse(words(), " is not within the ", world_->size(), " PEs");
  }
  if (set.size == world_->size()) return *world_;
  std::vector<int> pes;
  for (int at = 0; at < set.size; ++at) pes.push_back(set.start + at * (1 << set.log_stride));
  if (std::find(pes.begin(), pes.end(), own_pe()) == pes.end()) {
    refuse(words(), " is without PE ", own_pe(), ", which calls it");
  }
  MutexLock lock(mutex_);
  std::unique_ptr<Team>& found = sets_[{set.start, set.log_stride, set.size}];
  if (found == nullptr) {
    found = std::make_unique<Team>(text("set.", set.start, '.', set.log_stride, '.', set.size),
                                   std::move(pes), own_pe());
  }
  return *found;
}

Meeting& Teams::meet(Team& team) {
  if (&team == world_.get()) return *world_->meeting();
  if (team.size() == world_->size() && &team == shared_.get()) return *world_->meeting();
  return team.meet([&] { return join(team); });
}

std::unique_ptr<Meeting> Teams::join(const Team& team) {
  symm::Group& everybody = world_->meeting()->group();
  for (;;) {
    if (const Status failed = everybody.failure(); !failed.ok()) throw PeerError(failed);
    try {
      symm::Group group = everybody.sub_group({.name = team.name(),
                                               .ranks = team.pes(),
                                               .measure_thresholds = false,
                                               .timeout = kJoiningTurn});
      return std::make_unique<Meeting>(heap_, std::move(group), memory_);
    } catch (const TimeoutError&) {
      // Once more: what was begun is taken back.
    }
  }
}

shmem_team_t Teams::add(Team& parent, std::vector<int> pes, int child) {
  auto team = std::make_unique<Team>(child_name(parent.name(), child), std::move(pes), own_pe());
  MutexLock lock(mutex_);
  const auto handle = reinterpret_cast<shmem_team_t>(++handle_count_);
  teams_[handle] = std::move(team);
  return handle;
}

void Teams::destroy(shmem_team_t team) {
  if (team == SHMEM_TEAM_INVALID) return;  // allowed, and nothing
  if (team == SHMEM_TEAM_WORLD || team == SHMEM_TEAM_SHARED) {
    refuse("a team that was there from the beginning cannot be destroyed");
  }
  Team& found = at(team);
  if (found.meeting() != nullptr) found.meeting()->group().leave();
  MutexLock lock(mutex_);
  std::erase_if(contexts_, [team](const auto& each) { return each.second == team; });
  teams_.erase(team);
}

// Leaving is a barrier: all PEs go through their teams in the same order, by name, so that nobody
// waits in a circle.
void Teams::leave_all() {
  std::map<std::string, Team*> joined;
  {
    MutexLock lock(mutex_);
    for (const auto& [handle, team] : teams_) joined[team->name()] = team.get();
    for (const auto& [numbers, team] : sets_) joined[team->name()] = team.get();
  }
  joined[shared_->name()] = shared_.get();
  for (const auto& [name, team] : joined) {
    if (team->meeting() != nullptr) team->meeting()->group().leave();
  }
}

shmem_ctx_t Teams::add_context(shmem_team_t team) {
  at(team);
  MutexLock lock(mutex_);
  const auto handle = reinterpret_cast<shmem_ctx_t>(++handle_count_);
  contexts_[handle] = team;
  return handle;
}

shmem_team_t Teams::team_of(shmem_ctx_t context) {
  if (context == SHMEM_CTX_DEFAULT) return SHMEM_TEAM_WORLD;
  MutexLock lock(mutex_);
  const auto found = contexts_.find(context);
  return found == contexts_.end() ? SHMEM_TEAM_INVALID : found->second;
}

void Teams::destroy_context(shmem_ctx_t context) {
  if (context == SHMEM_CTX_INVALID) return;
  if (context == SHMEM_CTX_DEFAULT) refuse("SHMEM_CTX_DEFAULT cannot be destroyed");
  MutexLock lock(mutex_);
  if (contexts_.erase(context) == 0) refuse("there is no such context: was it destroyed?");
}

}  // namespace ashlar::shmem
