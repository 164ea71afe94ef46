// SPDX-License-Identifier: Apache-2.0
//
// The default pool or a private one: an isolated set of arenas, views and extents. Memory moves
// between the arenas of a pool but never between pools. Guarded by the engine's lock, except that
// `arenas` grows under PeakTracker's lock as well.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "ashlar/pool.h"
#include "engine/paged/pool/arena.h"
#include "engine/paged/pool/idle_map.h"
#include "engine/paged/pool/plan_candidates.h"
#include "engine/paged/pool/stitch_budget.h"

namespace ashlar::paged {

// The byte-weighted mean size of the large blocks that misses have requested: the size of the
// blocks that take most of the memory.
class TypicalBlockSize {
 public:
  void add(size_t bytes) {
    const auto added = static_cast<double>(bytes);
    sum_ += added;
    sum_of_squares_ += added * added;
  }
  size_t bytes() const { return sum_ == 0 ? 0 : static_cast<size_t>(sum_of_squares_ / sum_); }

 private:
  double sum_ = 0;
  double sum_of_squares_ = 0;
};

// A trim destroys a private pool that is freeable (base/routes.h), has no memory, and has no
// operation in flight.
struct PagedPool {
  PagedPool(PoolId pool_id, PoolOptions pool_options, bool plain)
      : id(pool_id), options(std::move(pool_options)), is_plain(plain) {}

  const PoolId id;
  PoolOptions options;
  // Whether the pool uses whole segments, because it has a source or no_split, or because the
  // device cannot map one extent at several addresses. Changes only while the pool has no memory.
  bool is_plain;
  bool is_paused = false;    // the pool may lack memory; its allocations fail
  bool is_changing = false;  // a pause or resume is in progress, which may release the lock
  bool has_recorded_addresses = false;  // a graph or a checkpoint refers to the pool's addresses
  int trim_count = 0;                   // trims in progress, which may have released the lock
  int in_flight_count = 0;              // allocations in progress, which may have released the lock
  StitchBudget budget{};
  TypicalBlockSize typical_block{};
  std::map<StreamId, std::unique_ptr<Arena>> arenas;
  std::vector<Arena*> arenas_by_serial;      // the same arenas
  std::vector<std::unique_ptr<View>> views;  // sorted by id
  std::vector<std::unique_ptr<Extent>> extents;
  IdleMap idle{};
  PlanCandidates candidates{};
  uint32_t last_view_id = 0;
  size_t prepared_view_count = 0;  // prepared but not added; `views` has capacity for them
  std::vector<Retirement> retirements;

  // Creates an arena. Throws std::bad_alloc, without effect, if there is no memory. REQUIRES:
  // `serial` is higher than that of all other arenas.
  Arena& add_arena(StreamId stream, uint64_t serial, BlockTable& addresses) {
    reserve_amortized(arenas_by_serial, arenas.size() + 1);
    candidates.reserve_arena();
    auto made = std::make_unique<Arena>(*this, stream, serial, addresses);
    Arena& arena = *arenas.emplace_hint(arenas.end(), stream, std::move(made))->second;
    arenas_by_serial.push_back(&arena);
    candidates.add(arena);
    return arena;
  }
  // Returns a view to be added with `add_view`, or discarded with `discard_view`. In between, the
  // engine's lock may be released. Throws std::bad_alloc, without effect, if there is no memory.
  std::unique_ptr<View> prepare_view() {
    reserve_amortized(views, views.size() + prepared_view_count + 1);
    candidates.reserve_views(prepared_view_count + 1);
    auto view = std::make_unique<View>();
    ++prepared_view_count;
    return view;
  }
  View& add_view(std::unique_ptr<View> prepared) noexcept {
    --prepared_view_count;
    prepared->id = ++last_view_id;
    views.push_back(std::move(prepared));
    candidates.add(*views.back());
    return *views.back();
  }
  void discard_view(std::unique_ptr<View> prepared) noexcept {
    --prepared_view_count;
    prepared.reset();
  }
  void erase_view(const View& view) noexcept {
    candidates.erase(view);
    views.erase(
        std::lower_bound(views.begin(), views.end(), view.id,
                         [](const auto& each, uint32_t wanted) { return each->id < wanted; }));
  }
  // Destroys the views whose addresses have been freed (`View::is_released`).
  void erase_released_views() noexcept {
    const auto is_released = [](const auto& view) { return view->is_released(); };
    const auto count = std::count_if(views.begin(), views.end(), is_released);
    candidates.erase_released(static_cast<size_t>(count), arenas_by_serial);
    std::erase_if(views, is_released);
  }
  // REQUIRES: the locks of the pool's arenas.
  bool has_active_block() const {
    return std::any_of(views.begin(), views.end(),
                       [](const auto& view) { return view->has_active_block(); });
  }
  // Fills the arenas' reserves of blocks (`Arena::fill_reserve`). Throws std::bad_alloc if there is
  // no memory. REQUIRES: the locks of the pool's arenas.
  void fill_reserves() {
    for (Arena* arena : arenas_by_serial) arena->fill_reserve();
  }
  // Merges the blocks of all quick lists with their neighbours. Returns the number of such blocks.
  // REQUIRES: the locks of the pool's arenas.
  int64_t flush() noexcept {
    int64_t merged = 0;
    for (const auto& [stream, arena] : arenas) merged += arena->flush();
    return merged;
  }
  bool may_retire_mappings() const {
    return !is_plain && !options.never_remap && !has_recorded_addresses && !is_paused &&
           !is_changing;
  }
  // Adds the free parts of partly used memory. Paused memory has none.
  void add_inactive_splits(InactiveSplits& sums);
  bool has_memory() const { return !views.empty() || !extents.empty(); }
};

// Holds the lock of one arena for a scope, without waking its watches: for code that only reads.
class ASHLAR_SCOPED_CAPABILITY ArenaReadLock {
 public:
  explicit ArenaReadLock(Arena& arena) ASHLAR_ACQUIRE(arena.lock)
      ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis)
      : arena_(arena) {
    arena_.lock.lock_unbiased();
  }
  ~ArenaReadLock() ASHLAR_RELEASE() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    arena_.lock.unlock_unbiased();
  }
  ArenaReadLock(const ArenaReadLock&) = delete;
  ArenaReadLock& operator=(const ArenaReadLock&) = delete;

 private:
  Arena& arena_;
};

// Scans only views whose arenas do not rest. The sums of resting arenas have not changed.
inline void PagedPool::add_inactive_splits(InactiveSplits& sums) {
  candidates.update_arenas();
  if (!is_paused) add_inactive(candidates.resting_inactive(), sums);
  for (const View* view : candidates.views()) {
    const bool is_counted = view->arena->planning.is_resting;
    if (is_counted || (is_paused && !view->is_plain)) continue;
    const ArenaReadLock lock(*view->arena);
    add_inactive(*view, sums);
  }
}

// Holds the locks of many arenas for a scope, taken in the order of their serials. Clang's analysis
// cannot express a variable number of locks, so it does not check this class.
class ArenaLocks {
 public:
  // REQUIRES: the engine's lock, so that no arena is added.
  explicit ArenaLocks(const PagedPool& pool) : ArenaLocks(pool.arenas_by_serial) {}
  // REQUIRES: `arenas` is sorted by serial and outlives this object. The vector is not copied,
  // because hits that reach a peak use this class and must not allocate host memory.
  explicit ArenaLocks(const std::vector<Arena*>& arenas) : arenas_(arenas) { lock(); }
  ~ArenaLocks() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    for (Arena* arena : arenas_) arena->lock.unlock_unbiased();
  }
  std::span<Arena* const> arenas() const { return arenas_; }
  ArenaLocks(const ArenaLocks&) = delete;
  ArenaLocks& operator=(const ArenaLocks&) = delete;

 private:
  void lock() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    for (Arena* arena : arenas_) arena->lock.lock_unbiased();
  }

  std::span<Arena* const> arenas_;
};

}  // namespace ashlar::paged
