// SPDX-License-Identifier: Apache-2.0
//
// The arenas and views of a pool that a plan must visit. A program may have thousands of streams.
// Most of these streams are idle, and each has an arena with little memory, which cannot serve
// another stream. Such an arena *rests*: plans visit neither the arena nor its views until the
// arena's lock is taken again. While the pool has few arenas, none rests.
//
// A resting arena has no memory that another stream could use:
//   - no free range of a whole extent, and no block on a quick list
//   - no detached extent, and no displaced extent to be returned
//   - no view without attached extents
//
// Not thread safe: guarded by the engine's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/lock_watch.h"
#include "engine/paged/pool/arena.h"
#include "engine/paged/pool/view.h"

namespace ashlar::paged {

struct PagedPool;

class PlanCandidates {
 public:
  // Returns all arenas of the pool that do not rest, sorted by serial.
  const std::vector<Arena*>& arenas() const { return arenas_; }
  // Returns all views of these arenas, and new segments of resting arenas, sorted by id.
  const std::vector<View*>& views() const { return views_; }

  // Reserve capacity for one more arena, or for `count` more views, so that `add` cannot fail.
  void reserve_arena() { reserve_amortized(arenas_, arena_count_ + 1); }
  void reserve_views(size_t count) { reserve_amortized(views_, view_count_ + count); }
  // REQUIRES: the arena or the view is newer than all others of the pool.
  void add(Arena& arena);
  void add(View& view);
  // Call when the view is destroyed.
  void erase(const View& view);
  // Call when the released views (`View::is_released`) are destroyed. REQUIRES: `count` is their
  // number, and `arenas` are all arenas of the pool.
  void erase_released(size_t count, const std::vector<Arena*>& arenas);

  // Adds `requester` and the arenas that have woken, and removes the arenas that `rest_unusable`
  // has put to rest. Call before a plan. REQUIRES: no lock of an arena is held.
  void update(Arena& requester);
  // Adds the arenas that have woken, and removes those that `rest_unusable` has put to rest.
  // REQUIRES: no lock of an arena is held.
  void update_arenas();
  // Returns the sum of the inactive splits of all resting arenas. Exact after `update_arenas`.
  const InactiveSplits& resting_inactive() const { return resting_inactive_; }
  // Adds all arenas. REQUIRES: no lock of an arena is held.
  template <typename Arenas>
  void wake_all(const Arenas& arenas) {
    for (const auto& [stream, arena] : arenas) wake(*arena);
    update_arenas();
  }
  // Puts to rest the arenas whose memory no other stream can use, unless there are few candidates.
  // `arenas()` changes only in the next update. REQUIRES: this object belongs to `pool`; the locks
  // of `arenas()` are held by lock_unbiased; the quick lists of these arenas are empty.
  void rest_unusable(const PagedPool& pool, const Arena& requester, size_t granule_bytes);

 private:
  static void wake(Arena& arena) { const BiasedLock lock(arena.lock); }
  void rest(Arena& arena);
  void add_resting_views(Arena& arena);

  // These lists have the capacity for all arenas and views of the pool.
  std::vector<Arena*> arenas_;
  std::vector<View*> views_;
  size_t arena_count_ = 0;  // number of arenas of the pool
  size_t view_count_ = 0;
  InactiveSplits resting_inactive_{};
  LockWatchList woken_;
  uint64_t round_ = 0;  // number of the last call of `rest_unusable`
};

}  // namespace ashlar::paged
