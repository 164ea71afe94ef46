// SPDX-License-Identifier: Apache-2.0
//
// Teams, for C.
#include <algorithm>

#include "ashlar/shmem/shmem.h"
#include "shmem/collectives.h"
#include "shmem/failing.h"
#include "shmem/world.h"

using ashlar::shmem::guarded;
using ashlar::shmem::Team;
using ashlar::shmem::Teams;
using ashlar::shmem::World;

int shmem_team_my_pe(shmem_team_t team) {
  return guarded("shmem_team_my_pe", [&] {
    const Team* found = World::get().teams().find(team);
    return found == nullptr ? -1 : found->rank();
  });
}

int shmem_team_n_pes(shmem_team_t team) {
  return guarded("shmem_team_n_pes", [&] {
    const Team* found = World::get().teams().find(team);
    return found == nullptr ? -1 : found->size();
  });
}

// Contexts need no preparation: there are as many as one makes.
int shmem_team_get_config(shmem_team_t team, long config_mask, shmem_team_config_t* config) {
  return guarded("shmem_team_get_config", [&] {
    if (World::get().teams().find(team) == nullptr) return -1;
    if ((config_mask & SHMEM_TEAM_NUM_CONTEXTS) != 0) config->num_contexts = 0;
    return 0;
  });
}

int shmem_team_translate_pe(shmem_team_t src_team, int src_pe, shmem_team_t dest_team) {
  return guarded("shmem_team_translate_pe", [&] {
    const Team* from = World::get().teams().find(src_team);
    const Team* to = World::get().teams().find(dest_team);
    if (from == nullptr || to == nullptr || src_pe < 0 || src_pe >= from->size()) return -1;
    return to->pe_of(from->world_pe(src_pe));
  });
}

namespace {

struct Stride {
  int start = 0;
  int stride = 1;
  int size = 0;
};

// Those of the parent, as they are numbered in the world; empty: it has no such PEs.
std::vector<int> pes_of(const Team& parent, const Stride& wanted) {
  std::vector<int> pes;
  for (int64_t at = 0; at < wanted.size; ++at) {
    const int64_t pe = wanted.start + at * wanted.stride;
    if (pe < 0 || pe >= parent.size() || (at > 0 && wanted.stride == 0)) return {};
    pes.push_back(parent.world_pe(static_cast<int>(pe)));
  }
  return pes;
}

// SHMEM_TEAM_INVALID: this PE is not in it.
shmem_team_t add_team(Teams& teams, Team& parent, std::vector<int> pes, int child) {
  const int own = teams.world().rank();
  if (std::find(pes.begin(), pes.end(), own) == pes.end()) return SHMEM_TEAM_INVALID;
  return teams.add(parent, std::move(pes), child);
}

}  // namespace

int shmem_team_split_strided(shmem_team_t parent_team, int start, int stride, int size,
                             const shmem_team_config_t*, long, shmem_team_t* new_team) {
  return guarded("shmem_team_split_strided", [&] {
    *new_team = SHMEM_TEAM_INVALID;
    Teams& teams = World::get().teams();
    Team* parent = teams.find(parent_team);
    if (parent == nullptr) return -1;
    const auto number = [](int each) { return static_cast<uint64_t>(each); };
    teams.meet(*parent).agree(
        {"shmem_team_split_strided", {number(start), number(stride), number(size)}, 3});
    std::vector<int> pes = pes_of(*parent, {start, stride, size});
    if (pes.empty()) return -1;
    *new_team = add_team(teams, *parent, std::move(pes), parent->next_child());
    return 0;
  });
}

// Rows of `xrange` PEs, of which the last may be short, and columns.
int shmem_team_split_2d(shmem_team_t parent_team, int xrange, const shmem_team_config_t*, long,
                        shmem_team_t* xaxis_team, const shmem_team_config_t*, long,
                        shmem_team_t* yaxis_team) {
  return guarded("shmem_team_split_2d", [&] {
    *xaxis_team = SHMEM_TEAM_INVALID;
    *yaxis_team = SHMEM_TEAM_INVALID;
    Teams& teams = World::get().teams();
    Team* parent = teams.find(parent_team);
    if (parent == nullptr) return -1;
    teams.meet(*parent).agree({"shmem_team_split_2d", {static_cast<uint64_t>(xrange)}});
    if (xrange < 1) return -1;
    const int width = std::min(xrange, parent->size());
    const int x = parent->rank() % width;
    const int y = parent->rank() / width;
    const int rows = (parent->size() + width - 1) / width;
    const int row_length = std::min(width, parent->size() - y * width);
    const int column_length = y + (parent->size() - 1 - parent->rank()) / width + 1;
    // Rows and columns get numbers of their own on all PEs, whichever of them a PE is in.
    const int first = parent->next_child();
    for (int each = 1; each < rows + width; ++each) parent->next_child();
    *xaxis_team = add_team(teams, *parent, pes_of(*parent, {y * width, 1, row_length}), first + y);
    *yaxis_team =
        add_team(teams, *parent, pes_of(*parent, {x, width, column_length}), first + rows + x);
    return 0;
  });
}

int shmem_team_sync(shmem_team_t team) {
  return guarded("shmem_team_sync", [&] {
    ashlar::shmem::sync(World::get().teams().at(team));
    return 0;
  });
}

void shmem_team_destroy(shmem_team_t team) {
  guarded("shmem_team_destroy", [&] { World::get().teams().destroy(team); });
}
