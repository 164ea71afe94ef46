// SPDX-License-Identifier: Apache-2.0
//
// Decides which arenas rest, and adds woken arenas and their views again.
#include "engine/paged/pool/plan_candidates.h"

#include <algorithm>

#include "engine/paged/pool/paged_pool.h"

namespace ashlar::paged {
namespace {

// No arena is put to rest while at most this many arenas are candidates. The number is small,
// because a visit takes a few tenths of a microsecond, and a resting arena could not serve the
// plan.
constexpr size_t kMaxArenas = 8;

bool has_lower_id(const View* a, const View* b) { return a->id < b->id; }

bool has_range(const Arena& arena, size_t bytes) {
  bool is_found = false;
  for (const SubArena& sub : arena.sub_arenas) {
    sub.ranges.visit_at_least(bytes, [&](const PagedBlock*) {
      is_found = true;
      return FreeRanges::Next::kNone;
    });
  }
  return is_found;
}

}  // namespace

void PlanCandidates::add(Arena& arena) {
  ++arena_count_;
  arenas_.push_back(&arena);
}

void PlanCandidates::add(View& view) {
  ++view_count_;
  views_.push_back(&view);
}

void PlanCandidates::erase(const View& view) {
  const auto found = std::lower_bound(views_.begin(), views_.end(), &view, has_lower_id);
  --view_count_;
  if (found != views_.end() && *found == &view) views_.erase(found);
  std::erase(view.arena->planning.resting_views, &view);
}

void PlanCandidates::update(Arena& requester) {
  if (requester.planning.is_resting) wake(requester);
  update_arenas();
}

// An arena that has rested and woken since the last call is first removed and then added again.
void PlanCandidates::update_arenas() {
  std::erase_if(arenas_, [](const Arena* arena) { return arena->planning.is_resting; });
  for (LockWatch* each = woken_.take_all(); each != nullptr; each = each->next) {
    Arena& arena = static_cast<ArenaWatch*>(each)->arena;
    arena.planning.is_resting = false;
    arenas_.insert(std::lower_bound(arenas_.begin(), arenas_.end(), &arena, has_lower_serial),
                   &arena);
    add_resting_views(arena);
  }
}

void PlanCandidates::add_resting_views(Arena& arena) {
  for (View* view : arena.planning.resting_views) {
    const auto place = std::lower_bound(views_.begin(), views_.end(), view, has_lower_id);
    if (place == views_.end() || *place != view) views_.insert(place, view);
  }
  arena.planning.resting_views.clear();
}

void PlanCandidates::rest_unusable(const PagedPool& pool, const Arena& requester,
                                   size_t granule_bytes) {
  if (arenas_.size() <= kMaxArenas) return;
  ++round_;
  for (const uint32_t number : pool.idle.detached()) {
    pool.extents[number - 1]->arena->planning.usable_round = round_;
  }
  for (const View* view : views_) {
    if (!view->is_plain && view->attached_count == 0) view->arena->planning.usable_round = round_;
  }
  for (Arena* arena : arenas_) {
    const bool is_usable = arena == &requester || arena->planning.usable_round == round_ ||
                           !arena->return_queue.empty() || has_range(*arena, granule_bytes);
    if (!is_usable) rest(*arena);
  }
  // If host memory runs out here, a view stays in both lists until the arena wakes.
  for (View* view : views_) {
    PlanningRecord& planning = view->arena->planning;
    if (planning.is_resting) planning.resting_views.push_back(view);
  }
  std::erase_if(views_, [](const View* view) { return view->arena->planning.is_resting; });
}

void PlanCandidates::rest(Arena& arena) {
  arena.planning.is_resting = true;
  arena.is_lending = false;
  arena.lock.watch(arena.planning.watch, woken_);
}

}  // namespace ashlar::paged
