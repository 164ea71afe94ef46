// SPDX-License-Identifier: Apache-2.0
//
// The free ranges of one stream in one pool, and the counters of allocations from them. Every
// stream has its own arena, so hits by threads that use different streams take different locks.
//
// All functions need the arena's lock unless stated otherwise. Locks of several arenas are taken in
// the order of their serials, under the engine's lock or PeakTracker's (`ArenaLocks`).
//
// Moving extents between views splits blocks, which must not fail halfway. Therefore the arena
// keeps unused PagedBlock objects in reserve, in proportion to the slots of its views
// (kBlocksPerSlot). Functions that split blocks to move extents take blocks from this reserve, and
// cannot fail. Every operation that moves extents fills the reserve before its first change
// (`fill_reserve`).
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "ashlar/stats.h"
#include "base/biased_mutex.h"
#include "base/lock_watch.h"
#include "engine/block_table.h"
#include "engine/paged/pool/block_reserve.h"
#include "engine/paged/pool/counters.h"
#include "engine/paged/pool/free_ranges.h"
#include "engine/paged/pool/inactive_split.h"
#include "engine/paged/pool/quick_lists.h"

namespace ashlar::paged {

struct PagedPool;

inline Amount amount_of(const Block& block) {
  return {1, static_cast<int64_t>(block.bytes), static_cast<int64_t>(block.requested_bytes)};
}

// The small or the large blocks of an arena. Small and large blocks are kept in separate views, so
// that a small block never prevents a large extent from being released.
struct SubArena {
  bool is_small = false;
  FreeRanges ranges;
  Counters counters;
  // The share of the arena's level that this sub-arena may use. Cleared while `counters` are
  // unused.
  PeakLevel level;
  PeakLevel size_level;  // this sub-arena's share of the bound on all small, or all large, blocks
  PeakLevel highest;     // the highest `net` that an update of the peaks has observed
  // The number of further wasteful ranges that are accepted before the planner searches all views
  // again.
  int64_t wasteful_fits_left = 0;

  PeakHeadroom wanted_headroom() const { return highest.shortfall(counters.net()); }
  void set_level(const Amount& net, const PeakHeadroom& headroom) {
    level = PeakLevel::min(PeakLevel::above(net, headroom), size_level);
  }
};

// A watch on the lock of an arena.
struct ArenaWatch : LockWatch {
  explicit ArenaWatch(Arena& its_arena) : arena(its_arena) {}
  Arena& arena;
};

// PeakTracker's record of an arena. Guarded by PeakTracker's lock.
struct PeakTrackerRecord {
  explicit PeakTrackerRecord(Arena& arena) : watch(arena) {}

  ArenaWatch watch;  // registered while the arena rests
  // The counters that the sums contain, indexed by `is_small`.
  std::array<RunningCounters, 2> counted;
  int unchanged_count = 0;  // consecutive updates that found the counters unchanged
  // Whether updates of the peaks skip the arena until its lock is taken again. Meanwhile, the arena
  // keeps a part of the headroom.
  bool is_resting = false;
  bool is_in_keepers = false;  // in PeakTracker's list of arenas that may keep headroom
  PeakHeadroom kept_headroom;  // while the arena rests
  std::array<PeakHeadroom, 2> kept_headroom_by_size;  // indexed by `is_small`
};

// The state of an arena in PlanCandidates. Guarded by the engine's lock.
struct PlanningRecord {
  explicit PlanningRecord(Arena& arena) : watch(arena) {}

  ArenaWatch watch;  // registered while the arena rests
  bool is_resting = false;
  View* resting_views = nullptr;  // the views while the arena rests, linked by `next_resting`
  InactiveSplits inactive{};      // of these views; constant while the arena rests
  uint64_t rest_round = 0;        // the round in which the arena was last put to rest
  uint64_t usable_round = 0;      // last round that found memory usable by other streams
};

class Arena {
 public:
  Arena(PagedPool& its_pool, StreamId its_stream, uint64_t its_serial, BlockTable& addresses)
      : pool(its_pool), stream(its_stream), serial(its_serial), addresses_(addresses) {
    sub_arenas[1].is_small = true;
  }

  // Returns whether this is an arena of the engine with this block table.
  bool belongs_to(const BlockTable& addresses) const { return &addresses == &addresses_; }

  SubArena& sub_arena(bool is_small) { return sub_arenas[is_small ? 1 : 0]; }
  const SubArena& sub_arena(bool is_small) const { return sub_arenas[is_small ? 1 : 0]; }

  // Takes a free block of `bytes` off its list, splitting a larger one if necessary. The result is
  // larger than `bytes` only if it is small, by at most an eighth, or if the pool has no_split.
  // Returns null if no block is large enough, if `return_queue` must be processed first, or if the
  // best block would strand more than the fraction `max_waste` of `bytes` in partly used extents
  // and no wasteful fit is left. Throws std::bad_alloc, without effect, if splitting needs new
  // PagedBlock objects and there is no memory.
  PagedBlock* take(size_t bytes, double max_waste) {
    PagedBlock* block = quick.take(bytes);
    if (block != nullptr) return block;
    return take_range(sub_arena(SizePolicy::is_small(bytes)), bytes, max_waste);
  }
  // Makes the block free. If a quick list accepts the block, a later flush merges it with its
  // neighbours.
  void put(PagedBlock* block) noexcept {
    if (!quick.put(block)) add_free(block);
  }
  // Counts an allocated block as freed and makes it free.
  void free(PagedBlock* block) noexcept {
    sub_arena(block->is_small).counters.total_freed.add(amount_of(*block));
    put(block);
  }
  // Merges the blocks of the quick lists with their neighbours. Returns the number of such blocks.
  int64_t flush() noexcept;
  // Removes the view from `return_queue`.
  void unqueue_return(View& view) { return_queue.remove(view); }

  // Prepares for a view of up to `bytes`, so that adding the view, or moving it to this arena,
  // cannot fail. Throws std::bad_alloc, without effect, if there is no memory.
  void reserve_ranges(bool is_small, size_t bytes) {
    FreeRanges& ranges = sub_arena(is_small).ranges;
    ranges.reserve(bytes);
    if (!reserve_.has_few_blocks()) ranges.create_lists();
  }
  // See BlockReserve. The first two functions throw std::bad_alloc if there is no memory;
  // `reserve_blocks` then has no effect.
  void reserve_blocks(size_t count) {
    fill_reserve(count);
    reserve_.reserve(count);
  }
  void fill_reserve(size_t more = 0) {
    reserve_.fill(more);
    if (!reserve_.has_few_blocks()) {
      for (SubArena& sub : sub_arenas) sub.ranges.create_lists();
    }
  }
  void unreserve_blocks(size_t count) noexcept { reserve_.unreserve(count); }
  // Moves the reserved blocks for the slots of a view to `other`.
  void move_reserve_to(Arena& other, const View& view) noexcept {
    reserve_.move_to(other.reserve_, kBlocksPerSlot * view.slots.size());
  }
  size_t reserved_block_count() const { return reserve_.reserved_count(); }

  // Between two blocks in use with n > 0 whole slots between them, there are at least one and at
  // most n + 2 free or detached blocks. Hence n + 1 <= 2 n new blocks suffice for any sequence of
  // attaches and detaches.
  static constexpr size_t kBlocksPerSlot = 2;
  // The number of additional blocks that a placement needs, to be split off on both sides.
  static constexpr size_t kBlocksPerPlacement = 4;
  // The same for a placement that uses no existing block: one for the new memory, and one to be
  // split off its end.
  static constexpr size_t kBlocksPerNewPlacement = 2;

  // Sets the block's state for the request and counts it. The block must be on no list.
  static void mark_allocated(SubArena& sub, PagedBlock* block, size_t requested_bytes,
                             StackId stack) {
    block->state = BlockState::kAllocated;
    block->requested_bytes = requested_bytes;
    block->stack = stack;
    sub.counters.total_allocated.add(amount_of(*block));
  }

  // Returns the number of allocations and frees since the totals were reset.
  int64_t use_count() const;
  // Whether the device has been synchronized since the arena was last used. Meaningful only for
  // destroyed streams.
  bool is_quiescent() const { return quiescent_use_count == use_count(); }
  void mark_stream_alive() {
    is_stream_destroyed = false;
    quiescent_use_count.reset();
  }

  // Peak levels: see counters.h.
  Amount net() const;
  void raise_highest();
  void forget_highest() {
    highest_ = {};
    for (SubArena& sub : sub_arenas) sub.highest = {};
  }
  PeakHeadroom wanted_headroom() const { return highest_.shortfall(net()); }
  PeakHeadroom headroom() const { return level_.headroom_above(net()); }
  void set_levels(const PeakLevel& both, const std::array<PeakLevel, 2>& by_size);
  // Lowers the levels to the current values, so that the arena has no headroom.
  void remove_headroom();
  // Clears all levels, so that every allocation updates the peaks.
  void clear_levels();
  // Lowers the levels by `freed`, which no longer counts as allocated but still as active, so that
  // it adds no headroom.
  void lower_levels(SubArena& sub, const Amount& freed);
  // Whether the counters may rise by `more`, which is not counted yet, without exceeding the
  // levels. If not, the peaks must be updated. If only this sub-arena's share is used up,
  // redistributes the arena's headroom.
  [[gnu::always_inline]] bool may_rise(SubArena& sub, const Amount& more) {
    Amount net = sub.counters.net();
    net.add(more);
    return sub.level.allows(net) || rebalance_levels(sub, more);
  }

  // The functions below cannot fail. Those that add blocks take them from the reserve. REQUIRES:
  // the reserve was filled.

  // Inserts a block before `next`, or at the end of the view if `next` is null. The state of the
  // new block is kPending.
  PagedBlock* insert_block(View& view, AddressRange range, PagedBlock* next) noexcept;
  void remove_block(PagedBlock* block) noexcept;
  // Splits a block that is on no list at `offset` of its view. Returns the second part, which is on
  // no list either.
  PagedBlock* split(PagedBlock* block, size_t offset) noexcept;
  // Like `split`, but `block` becomes the second part. Returns the first part.
  PagedBlock* split_front(PagedBlock* block, size_t offset) noexcept;
  // Makes a block that is on no list free and merges it immediately.
  void add_free(PagedBlock* block) noexcept;
  // Converts a block of whole slots, which is on no list, to one detached block per slot.
  void add_detached(PagedBlock* block) noexcept;
  void erase_free(PagedBlock* block) { sub_arena(block->view->is_small).ranges.erase(block); }

  PagedPool& pool;
  const StreamId stream;
  const uint64_t serial;
  BiasedMutex<LockRank::kArena> lock;
  QuickLists quick;
  std::array<SubArena, 2> sub_arenas;  // indexed by `is_small`
  // Views in which a displaced extent has become free. Before a large block is split off a free
  // range, ExtentMover::return_displaced returns these extents to their origin.
  DisplacedViews return_queue;
  UsageSum* pool_sum = nullptr;    // PeakTracker's sums over the arenas of the pool
  UsageSum* stream_sum = nullptr;  // PeakTracker's sums over the arenas of the stream
  PeakTrackerRecord tracked{*this};
  // Whether Stitcher::order_after found that the stream has been destroyed, so that no event can be
  // recorded on it. The engine's lock guards this field and the public fields below.
  bool is_stream_destroyed = false;
  // Set while MissHandler::retry_with_destroyed_streams runs: the `use_count` before that function
  // synchronized the device. If the count has changed since, the stream's id may have been reused,
  // and new work may use the memory.
  std::optional<int64_t> quiescent_use_count;
  PlanningRecord planning{*this};
  bool is_lending = false;  // whether `mark_idle_extents` may mark the arena's memory as idle
  // `marker` is the last event that a trim recorded on the stream, and `marker_round` counts these
  // events. An extent with the same `marker_round` is unused once the event is done.
  std::optional<EventId> marker;
  uint64_t marker_round = 0;

 private:
  // Out of line, so that the fast path pays nothing while it stays within its share.
  [[gnu::noinline]] bool rebalance_levels(SubArena& sub, const Amount& more);
  int64_t flush(SubArena& sub) noexcept;
  PagedBlock* take_range(SubArena& sub, size_t bytes, double max_waste);
  PagedBlock* best_range(SubArena& sub, size_t bytes, double max_waste, size_t& offset);
  static bool frees_displaced_extent(const PagedBlock& block, AddressRange freed);
  void merge_next(PagedBlock* block) noexcept;

  BlockTable& addresses_;  // the engine's table
  PeakLevel level_;        // the level of both sub-arenas together
  PeakLevel highest_;      // the highest `net` that an update observed
  BlockReserve reserve_;
};

// Reserves the blocks that one placement in the arena needs, for a scope. The constructor and the
// destructor take the arena's lock.
class BlockReservation {
 public:
  explicit BlockReservation(Arena& arena) : arena_(arena) {
    BiasedLock lock(arena_.lock);
    arena_.reserve_blocks(count_);
  }
  ~BlockReservation() {
    BiasedLock lock(arena_.lock);
    arena_.unreserve_blocks(count_);
  }
  BlockReservation(const BlockReservation&) = delete;
  BlockReservation& operator=(const BlockReservation&) = delete;

  // Keeps only the blocks that a placement without an existing block needs. REQUIRES: the arena's
  // lock.
  void reduce_to_new_placement() noexcept {
    arena_.unreserve_blocks(count_ - Arena::kBlocksPerNewPlacement);
    count_ = Arena::kBlocksPerNewPlacement;
  }

 private:
  Arena& arena_;
  size_t count_ = Arena::kBlocksPerPlacement;
};

// The order in which the locks of several arenas are taken.
inline bool has_lower_serial(const Arena* a, const Arena* b) { return a->serial < b->serial; }

// The bytes that a block at the beginning or at the end of a free range would strand: the bytes of
// the whole free extents that the block would touch, minus the size of the block.
struct EndCosts {
  int64_t at_begin = 0;
  int64_t at_end = 0;

  int64_t least() const { return std::min(at_begin, at_end); }
  bool is_best_at_begin() const { return at_begin <= at_end; }
  friend bool operator==(const EndCosts&, const EndCosts&) = default;
};
EndCosts stranded_bytes(const View& view, AddressRange range, size_t bytes);

}  // namespace ashlar::paged
