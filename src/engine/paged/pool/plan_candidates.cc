// SPDX-License-Identifier: Apache-2.0
//
// Decides which arenas rest, and adds woken arenas and their views again.
#include "engine/paged/pool/plan_candidates.h"

#include <algorithm>
#include <utility>

#include "engine/paged/pool/paged_pool.h"

namespace ashlar::paged {
namespace {

// No arena is put to rest while at most this many arenas are candidates. Visiting so few arenas
// takes at most a few microseconds, and a resting arena could not serve the plan. The recorded runs
// reserve the same amount of memory with 4 and with 8.
constexpr size_t kMaxArenas = 4;

bool has_lower_id(const View* a, const View* b) { return a->id < b->id; }

// Removes from the arena's resting views those that the predicate selects.
template <typename Predicate>
void erase_resting(PlanningRecord& planning, const Predicate& is_wanted) {
  for (View** link = &planning.resting_views; *link != nullptr;) {
    View& view = **link;
    if (is_wanted(&view)) {
      *link = std::exchange(view.planning.next_resting, nullptr);
    } else {
      link = &view.planning.next_resting;
    }
  }
}

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
  erase_resting(view.arena->planning, [&](const View* each) { return each == &view; });
}

void PlanCandidates::erase_released(size_t count, const std::vector<Arena*>& arenas) {
  view_count_ -= count;
  const auto is_released = [](const View* view) { return view->is_released(); };
  std::erase_if(views_, is_released);
  for (Arena* arena : arenas) erase_resting(arena->planning, is_released);
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
    subtract_inactive(std::exchange(arena.planning.inactive, {}), resting_inactive_);
    arenas_.insert(std::lower_bound(arenas_.begin(), arenas_.end(), &arena, has_lower_serial),
                   &arena);
    add_resting_views(arena);
  }
}

void PlanCandidates::add_resting_views(Arena& arena) {
  for (View* view = std::exchange(arena.planning.resting_views, nullptr); view != nullptr;
       view = std::exchange(view->planning.next_resting, nullptr)) {
    views_.insert(std::lower_bound(views_.begin(), views_.end(), view, has_lower_id), view);
  }
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
  for (const View* view : views_) {
    PlanningRecord& planning = view->arena->planning;
    const bool is_new = planning.is_resting && planning.rest_round == round_;
    if (!is_new) continue;
    add_inactive(*view, planning.inactive);
    add_inactive(*view, resting_inactive_);
  }
  for (auto each = views_.rbegin(); each != views_.rend();
       ++each) {  // the list is then sorted by id
    View& view = **each;
    PlanningRecord& planning = view.arena->planning;
    if (planning.is_resting)
      view.planning.next_resting = std::exchange(planning.resting_views, &view);
  }
  std::erase_if(views_, [](const View* view) { return view->arena->planning.is_resting; });
}

void PlanCandidates::rest(Arena& arena) {
  arena.planning.is_resting = true;
  arena.planning.rest_round = round_;
  arena.is_lending = false;
  arena.lock.watch(arena.planning.watch, woken_);
}

}  // namespace ashlar::paged
