// SPDX-License-Identifier: Apache-2.0
//
// The statistics of an engine: sums over the counters of its arenas, and the peaks of these sums.
//
// Each arena has its own counters (counters.h) and a level. As long as every arena stays at or
// below its level, no sum reaches a new peak. A request that passes the level calls `update_peaks`,
// which sums all counters, raises the peaks, and redistributes the headroom below the peaks:
//
//   sum over arenas of (level - net) <= peak - current, for every sum
//
// Headroom goes first to arenas that need it to return to their highest value so far. A program
// with repeating allocation patterns thus soon needs no more updates. Peaks are exact if one thread
// allocates at a time.
//
// With many arenas, updates visit only those whose counters may have changed. An arena that several
// updates found unchanged *rests*: it keeps the headroom that it needs to return to its highest
// value, and updates visit it again after its lock was taken. If other arenas lack the headroom
// that resting arenas keep, the next update takes it from all resting arenas.
//
// Thread safe: has its own lock, which is taken after the engine's lock and before the arenas'
// locks.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "ashlar/stats.h"
#include "base/lock_watch.h"
#include "engine/oom_report.h"
#include "engine/paged/engine_mutex.h"
#include "engine/paged/pool/paged_pool.h"

namespace ashlar::paged {

class PeakTracker {
 public:
  // Returns the arena of the stream, and creates it on first use. Throws std::bad_alloc, without
  // effect, if there is no memory. All other functions but `stats` and `with_arenas_locked` cannot
  // fail.
  Arena& arena_of(PagedPool& pool, StreamId stream, BlockTable& addresses)
      ASHLAR_REQUIRES(engine_lock) ASHLAR_EXCLUDES(mutex_);
  // Removes the arenas of a pool that is being destroyed. Their counts stay in the sums of the
  // engine and of the streams.
  void remove_arenas(const PagedPool& pool) noexcept ASHLAR_REQUIRES(engine_lock)
      ASHLAR_EXCLUDES(mutex_);

  // Counts memory that was obtained from the device (positive) or returned to it (negative).
  void count_reserved(const Arena& arena, bool is_small, int64_t bytes) noexcept
      ASHLAR_EXCLUDES(mutex_);
  // Counts the extent's memory for arena `to` instead of the extent's arena. The total of reserved
  // memory does not change.
  void move_reserved(const Extent& extent, const Arena& to, bool is_small) noexcept
      ASHLAR_EXCLUDES(mutex_);
  // Adds `more`, which may be negative, to the number of plain segments.
  void count_segments(bool is_small, int64_t more) noexcept ASHLAR_EXCLUDES(mutex_);
  void count_stitch() noexcept ASHLAR_EXCLUDES(mutex_);
  void count_retry() noexcept ASHLAR_EXCLUDES(mutex_);
  void count_stream_sync() noexcept ASHLAR_EXCLUDES(mutex_);
  // Counts an out-of-memory error, and returns the sums at that time.
  OomUsage count_oom(bool is_rejection) noexcept ASHLAR_EXCLUDES(mutex_);

  // Sums the counters, raises the peaks and redistributes the headroom. `requester`, the arena that
  // passed its level, gets half of the spare headroom.
  void update_peaks(const Arena* requester = nullptr) noexcept ASHLAR_EXCLUDES(mutex_);
  AllocatorStats stats(const InactiveSplits& inactive) ASHLAR_EXCLUDES(mutex_);
  void reset_peaks() noexcept ASHLAR_EXCLUDES(mutex_);
  void reset_totals() noexcept ASHLAR_EXCLUDES(mutex_);
  // Returns the highest sum of allocated bytes that an update has observed.
  int64_t highest_allocated_bytes() const ASHLAR_EXCLUDES(mutex_);
  int64_t reserved_bytes() const ASHLAR_EXCLUDES(mutex_);
  // The number of arenas that updates have visited so far. For tests.
  uint64_t visited_arena_count() const ASHLAR_EXCLUDES(mutex_);

  // Calls `visit` with the active bytes of all arenas while all of them are locked.
  template <typename Visit>
  void with_arenas_locked(const Visit& visit) ASHLAR_REQUIRES(engine_lock) ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    ArenaLocks arenas(arenas_);
    int64_t active_bytes = 0;
    for (const Arena* arena : arenas_) {
      for (const SubArena& sub : arena->sub_arenas) active_bytes += sub.counters.active().bytes;
    }
    visit(active_bytes);
  }

 private:
  void update_peaks_locked(const Arena* requester) ASHLAR_REQUIRES(mutex_);
  bool add_changes(Arena& arena) ASHLAR_REQUIRES(mutex_);
  void raise_peaks() ASHLAR_REQUIRES(mutex_);
  void divide_headroom(const Arena* requester) ASHLAR_REQUIRES(mutex_);
  void give_headroom(Arena& arena, bool is_requester) ASHLAR_REQUIRES(mutex_);
  template <typename Visit>
  void for_each_usage(const Visit& visit) ASHLAR_REQUIRES(mutex_);
  void rest(Arena& arena) ASHLAR_REQUIRES(mutex_);
  void watch_woken_arenas() ASHLAR_REQUIRES(mutex_);
  void subtract_kept_headroom(Arena& arena) ASHLAR_REQUIRES(mutex_);
  void release_kept_headroom() ASHLAR_REQUIRES(mutex_);

  mutable Mutex mutex_;
  // Sorted by serial. `watched_` has the capacity for all arenas.
  std::vector<Arena*> arenas_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<Arena*> watched_ ASHLAR_GUARDED_BY(mutex_);  // visited by updates: not resting
  LockWatchList woken_;                                    // arenas to be watched again
  uint64_t visited_arena_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  uint64_t last_serial_ ASHLAR_GUARDED_BY(mutex_) = 0;
  Arena* last_found_ ASHLAR_GUARDED_BY(mutex_) = nullptr;  // result of the last `arena_of`, or null
  // The sums over all arenas. The maps `pools` and `streams` are empty: `pool_sums_` and
  // `stream_sums_` hold these sums.
  AllocatorStats stats_ ASHLAR_GUARDED_BY(mutex_);
  std::map<PoolId, UsageSum> pool_sums_ ASHLAR_GUARDED_BY(mutex_);
  std::map<StreamId, UsageSum> stream_sums_ ASHLAR_GUARDED_BY(mutex_);
  int64_t highest_allocated_bytes_ ASHLAR_GUARDED_BY(mutex_) = 0;
  uint64_t round_ ASHLAR_GUARDED_BY(mutex_) = 0;  // number of the last division of headroom
  HeadroomShares all_shares_ ASHLAR_GUARDED_BY(mutex_);
  std::array<HeadroomShares, 2> size_shares_ ASHLAR_GUARDED_BY(mutex_);  // indexed by `is_small`
  // Arenas that keep headroom while they rest, and possibly others. Has the capacity for all
  // arenas.
  std::vector<Arena*> keepers_ ASHLAR_GUARDED_BY(mutex_);
  bool is_kept_headroom_wanted_ ASHLAR_GUARDED_BY(mutex_) = false;
};

}  // namespace ashlar::paged
