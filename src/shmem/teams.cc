// SPDX-License-Identifier: Apache-2.0
//
// Lookup, joining and leaving of teams.
#include "shmem/teams.h"

#include <algorithm>

#include "shmem/errors.h"
#include "symm/core/hash.h"

namespace ashlar::shmem {
namespace {

std::vector<int> all_pes(const PeGroup& world_group) {
  std::vector<int> pes;
  for (int pe = 0; pe < world_group.world_size(); ++pe) pes.push_back(pe);
  return pes;
}

std::vector<int> directly_mapped_pes(PeGroup& world_group) {
  std::vector<int> pes;
  for (int pe = 0; pe < world_group.world_size(); ++pe) {
    if (world_group.group().peer_access(pe) == symm::PeerAccess::kDirect) pes.push_back(pe);
  }
  return pes;
}

std::unique_ptr<Team> make_world(std::unique_ptr<PeGroup> world_group) {
  auto world = std::make_unique<Team>(world_group->group().name(), all_pes(*world_group),
                                      world_group->rank());
  world->join_once([&] { return std::move(world_group); });
  return world;
}

// The longest name of a parent that becomes part of its child teams' names. A longer name is
// replaced by a hash, because the length of group names is limited.
constexpr size_t kMaxInheritedNameBytes = 40;

std::string child_name(const std::string& parent, int child) {
  if (parent.size() <= kMaxInheritedNameBytes) return text(parent, '.', child);
  return text("team-", std::hex, symm::hash_append(symm::kHashSeed, parent), std::dec, '.', child);
}

}  // namespace

Team::Team(std::string name, std::vector<int> pes, int own_world_pe, int requested_context_count)
    : name_(std::move(name)),
      pes_(std::move(pes)),
      requested_context_count_(requested_context_count),
      rank_(pe_of(own_world_pe)) {}

int Team::world_pe(int pe) const {
  if (pe < 0 || pe >= size()) {
    throw_invalid_argument("PE ", pe, ": expected 0 to ", size() - 1, ", since the team has ",
                           size(), " PEs");
  }
  return pes_[static_cast<size_t>(pe)];
}

int Team::pe_of(int world_pe) const {
  const auto found = std::find(pes_.begin(), pes_.end(), world_pe);
  return found == pes_.end() ? -1 : static_cast<int>(found - pes_.begin());
}

PeGroup& Team::join_once(const std::function<std::unique_ptr<PeGroup>()>& join) {
  if (PeGroup* joined = pe_group(); joined != nullptr) return *joined;
  if (!join_mutex_.try_lock_until(Deadline::never())) {
    throw TimeoutError(symm::TimedMutex::timeout_error("joining"));
  }
  const symm::TimedLock lock(join_mutex_);
  if (pe_group_ == nullptr) {
    pe_group_ = join();
    joined_group_.store(pe_group_.get(), std::memory_order_release);
  }
  return *pe_group_;
}

Teams::Teams(symm::Heap& heap, const symm::SymmetricBuffer& memory,
             std::unique_ptr<PeGroup> world_group)
    : heap_(heap),
      memory_(memory),
      world_(make_world(std::move(world_group))),
      shared_(std::make_unique<Team>("shared", directly_mapped_pes(*world_->pe_group()),
                                     world_->rank())) {}

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
    throw_invalid_argument(team == SHMEM_TEAM_INVALID ? "the team is SHMEM_TEAM_INVALID"
                                                      : "unknown team; was it destroyed?");
  }
  return *found;
}

Team& Teams::at(const ActiveSet& set) {
  const auto describe = [&set] {
    return text("the active set (PE_start ", set.start, ", logPE_stride ", set.log_stride,
                ", PE_size ", set.size, ')');
  };
  if (set.start < 0 || set.size < 1 || set.log_stride < 0 || set.log_stride > 16 ||
      set.start + (int64_t{set.size} - 1) * (int64_t{1} << set.log_stride) >= world_->size()) {
    throw_invalid_argument(describe(), " is not within the ", world_->size(), " PEs");
  }
  if (set.size == world_->size()) return *world_;
  std::vector<int> pes;
  for (int at = 0; at < set.size; ++at) pes.push_back(set.start + at * (1 << set.log_stride));
  if (std::find(pes.begin(), pes.end(), my_pe()) == pes.end()) {
    throw_invalid_argument(describe(), " does not contain the calling PE ", my_pe());
  }
  MutexLock lock(mutex_);
  std::unique_ptr<Team>& found = active_sets_[{set.start, set.log_stride, set.size}];
  if (found == nullptr) {
    found = std::make_unique<Team>(text("set.", set.start, '.', set.log_stride, '.', set.size),
                                   std::move(pes), my_pe());
  }
  return *found;
}

PeGroup& Teams::group_for(Team& team) {
  if (&team == world_.get()) return *world_->pe_group();
  if (team.size() == world_->size() && &team == shared_.get()) return *world_->pe_group();
  return team.join_once([&] { return join(team); });
}

std::unique_ptr<PeGroup> Teams::join(const Team& team) {
  symm::Group& world_group = world_->pe_group()->group();
  JoinTimeouts timeouts;
  for (;;) {
    if (const Status failed = world_group.failure(); !failed.ok()) throw PeerError(failed);
    try {
      symm::Group group = world_group.sub_group({.name = team.name(),
                                                 .ranks = team.pes(),
                                                 .measure_thresholds = false,
                                                 .timeout = timeouts.next()});
      return std::make_unique<PeGroup>(heap_, std::move(group), memory_);
    } catch (const TimeoutError&) {
      // Try again: the failed attempt left no state behind.
    }
  }
}

shmem_team_t Teams::add(Team& parent, Child child) {
  auto team = std::make_unique<Team>(child_name(parent.name(), child.index), std::move(child.pes),
                                     my_pe(), child.requested_context_count);
  MutexLock lock(mutex_);
  const auto handle = reinterpret_cast<shmem_team_t>(++handle_count_);
  teams_[handle] = std::move(team);
  return handle;
}

void Teams::destroy(shmem_team_t team) {
  if (team == SHMEM_TEAM_INVALID) return;  // a no-op by specification
  if (team == SHMEM_TEAM_WORLD || team == SHMEM_TEAM_SHARED) {
    throw_invalid_argument("SHMEM_TEAM_WORLD and SHMEM_TEAM_SHARED cannot be destroyed");
  }
  Team& found = at(team);
  if (found.pe_group() != nullptr) found.pe_group()->group().leave();
  MutexLock lock(mutex_);
  std::erase_if(contexts_, [team](const auto& each) { return each.second == team; });
  teams_.erase(team);
}

// Leaving a group is a barrier. All PEs leave their teams in the order of the teams' names, which
// prevents deadlock.
void Teams::leave_all() {
  std::map<std::string, Team*> joined;
  {
    MutexLock lock(mutex_);
    for (const auto& [handle, team] : teams_) joined[team->name()] = team.get();
    for (const auto& [numbers, team] : active_sets_) joined[team->name()] = team.get();
  }
  joined[shared_->name()] = shared_.get();
  for (const auto& [name, team] : joined) {
    if (team->pe_group() != nullptr) team->pe_group()->group().leave();
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
  if (context == SHMEM_CTX_DEFAULT) throw_invalid_argument("SHMEM_CTX_DEFAULT cannot be destroyed");
  MutexLock lock(mutex_);
  if (contexts_.erase(context) == 0) throw_invalid_argument("unknown context; was it destroyed?");
}

}  // namespace ashlar::shmem
