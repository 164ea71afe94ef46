// SPDX-License-Identifier: Apache-2.0
//
// C functions for teams: queries, splitting, synchronization and destruction.
#include <algorithm>

#include "shmem/collectives.h"
#include "shmem/errors.h"
#include "shmem/profiling.h"
#include "shmem/runtime.h"

using ashlar::shmem::c_call;
using ashlar::shmem::Runtime;
using ashlar::shmem::Team;
using ashlar::shmem::Teams;

int shmem_team_my_pe(shmem_team_t team) {
  return c_call("shmem_team_my_pe", [&] {
    const Team* found = Runtime::get().teams().find(team);
    return found == nullptr ? -1 : found->rank();
  });
}
ASHLAR_SHMEM_PROFILED(shmem_team_my_pe)

int shmem_team_n_pes(shmem_team_t team) {
  return c_call("shmem_team_n_pes", [&] {
    const Team* found = Runtime::get().teams().find(team);
    return found == nullptr ? -1 : found->size();
  });
}
ASHLAR_SHMEM_PROFILED(shmem_team_n_pes)

int shmem_team_get_config(shmem_team_t team, long config_mask, shmem_team_config_t* config) {
  return c_call("shmem_team_get_config", [&] {
    const Team* found = Runtime::get().teams().find(team);
    if (found == nullptr) return -1;
    if ((config_mask & SHMEM_TEAM_NUM_CONTEXTS) != 0)
      config->num_contexts = found->requested_context_count();
    return 0;
  });
}
ASHLAR_SHMEM_PROFILED(shmem_team_get_config)

void* shmem_team_ptr(shmem_team_t team, const void* dest, int pe) {
  return c_call("shmem_team_ptr", [&]() -> void* {
    const Team* found = Runtime::get().teams().find(team);
    if (found == nullptr || pe < 0 || pe >= found->size()) return nullptr;
    return pshmem_ptr(dest, found->world_pe(pe));
  });
}
ASHLAR_SHMEM_PROFILED(shmem_team_ptr)

int shmem_team_translate_pe(shmem_team_t src_team, int src_pe, shmem_team_t dest_team) {
  return c_call("shmem_team_translate_pe", [&] {
    const Team* from = Runtime::get().teams().find(src_team);
    const Team* to = Runtime::get().teams().find(dest_team);
    if (from == nullptr || to == nullptr || src_pe < 0 || src_pe >= from->size()) return -1;
    return to->pe_of(from->world_pe(src_pe));
  });
}
ASHLAR_SHMEM_PROFILED(shmem_team_translate_pe)

namespace {

struct StridedPes {
  int start = 0;
  int stride = 1;
  int size = 0;
};

// Returns the world PE numbers of a strided subset of the parent; empty if the subset is empty, has
// duplicates, or has a PE that the parent lacks.
std::vector<int> pes_of(const Team& parent, const StridedPes& wanted) {
  std::vector<int> pes;
  for (int64_t at = 0; at < wanted.size; ++at) {
    const int64_t pe = wanted.start + at * wanted.stride;
    if (pe < 0 || pe >= parent.size() || (at > 0 && wanted.stride == 0)) return {};
    pes.push_back(parent.world_pe(static_cast<int>(pe)));
  }
  return pes;
}

// Adds a team if it contains this PE; otherwise returns SHMEM_TEAM_INVALID.
shmem_team_t add_team(Teams& teams, Team& parent, Teams::Child child) {
  const int own_pe = teams.world().rank();
  if (std::find(child.pes.begin(), child.pes.end(), own_pe) == child.pes.end()) {
    return SHMEM_TEAM_INVALID;
  }
  return teams.add(parent, std::move(child));
}

int requested_context_count(const shmem_team_config_t* config, long mask) {
  return config != nullptr && (mask & SHMEM_TEAM_NUM_CONTEXTS) != 0 ? config->num_contexts : 0;
}

}  // namespace

int shmem_team_split_strided(shmem_team_t parent_team, int start, int stride, int size,
                             const shmem_team_config_t* config, long config_mask,
                             shmem_team_t* new_team) {
  return c_call("shmem_team_split_strided", [&] {
    *new_team = SHMEM_TEAM_INVALID;
    Teams& teams = Runtime::get().teams();
    Team* parent = teams.find(parent_team);
    if (parent == nullptr) return -1;
    const auto number = [](int each) { return static_cast<uint64_t>(each); };
    teams.group_for(*parent).check_same_call(
        {"shmem_team_split_strided", {number(start), number(stride), number(size)}, 3});
    std::vector<int> pes = pes_of(*parent, {start, stride, size});
    if (pes.empty()) return -1;
    *new_team = add_team(teams, *parent,
                         {parent->issue_child_index(), std::move(pes),
                          requested_context_count(config, config_mask)});
    return 0;
  });
}
ASHLAR_SHMEM_PROFILED(shmem_team_split_strided)

// Rows have `xrange` PEs each; the last row may have fewer.
int shmem_team_split_2d(shmem_team_t parent_team, int xrange,
                        const shmem_team_config_t* xaxis_config, long xaxis_mask,
                        shmem_team_t* xaxis_team, const shmem_team_config_t* yaxis_config,
                        long yaxis_mask, shmem_team_t* yaxis_team) {
  return c_call("shmem_team_split_2d", [&] {
    *xaxis_team = SHMEM_TEAM_INVALID;
    *yaxis_team = SHMEM_TEAM_INVALID;
    Teams& teams = Runtime::get().teams();
    Team* parent = teams.find(parent_team);
    if (parent == nullptr) return -1;
    teams.group_for(*parent).check_same_call(
        {"shmem_team_split_2d", {static_cast<uint64_t>(xrange)}});
    if (xrange < 1) return -1;
    const int width = std::min(xrange, parent->size());
    const int x = parent->rank() % width;
    const int y = parent->rank() / width;
    const int rows = (parent->size() + width - 1) / width;
    const int row_length = std::min(width, parent->size() - y * width);
    const int column_length = y + (parent->size() - 1 - parent->rank()) / width + 1;
    // Every PE reserves child indices for all rows and columns, so that the indices are the same on
    // all PEs.
    const int first = parent->issue_child_index();
    for (int each = 1; each < rows + width; ++each) parent->issue_child_index();
    *xaxis_team = add_team(teams, *parent,
                           {first + y, pes_of(*parent, {y * width, 1, row_length}),
                            requested_context_count(xaxis_config, xaxis_mask)});
    *yaxis_team = add_team(teams, *parent,
                           {first + rows + x, pes_of(*parent, {x, width, column_length}),
                            requested_context_count(yaxis_config, yaxis_mask)});
    return 0;
  });
}
ASHLAR_SHMEM_PROFILED(shmem_team_split_2d)

int shmem_team_sync(shmem_team_t team) {
  return c_call("shmem_team_sync", [&] {
    ashlar::shmem::sync(Runtime::get().teams().at(team));
    return 0;
  });
}
ASHLAR_SHMEM_PROFILED(shmem_team_sync)

void shmem_team_destroy(shmem_team_t team) {
  c_call("shmem_team_destroy", [&] { Runtime::get().teams().destroy(team); });
}
ASHLAR_SHMEM_PROFILED(shmem_team_destroy)
