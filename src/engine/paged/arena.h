// SPDX-License-Identifier: Apache-2.0
//
// The free ranges of one stream in one pool, and what was handed out of them. Streams that threads
// use side by side have arenas of their own, so that those threads never wait for each other.
//
// Everything here needs the arena's lock. Locks of several arenas are taken in the order of their
// serials, and only by who holds the engine's lock or its lock of counters.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "ashlar/stats.h"
#include "base/biased_mutex.h"
#include "engine/block_table.h"
#include "engine/paged/counters.h"
#include "engine/paged/free_ranges.h"
#include "engine/paged/quick_lists.h"

namespace ashlar::paged {

struct PagedPool;

// Small blocks and large ones live apart, so that a few bytes never hold back a large extent.
struct Heap {
  bool is_small = false;
  FreeRanges ranges;
  QuickLists quick;
  Counters counters;
  Levels levels;      // its part of what the arena may do
  Levels own_levels;  // for the sums of small blocks, or of large ones, alone
  Levels highest;     // where it has been, as far as somebody looked
  // How many wasteful places are taken as they are, before all views are looked at again for a
  // better one.
  int64_t patience = 0;

  Levels need() const { return highest.need_above(counters.net()); }
  // As far above that as there is room, but not above its own.
  void rise_from(const Amount& net, const Levels& room) {
    levels = Levels::lower(Levels::above(net, room), own_levels);
  }
};

class Arena {
 public:
  Arena(PagedPool& its_pool, StreamId its_stream, uint64_t its_serial, BlockTable& addresses)
      : pool(its_pool), stream(its_stream), serial(its_serial), addresses_(addresses) {
    heaps[1].is_small = true;
  }

  Heap& heap(bool is_small) { return heaps[is_small ? 1 : 0]; }
  const Heap& heap(bool is_small) const { return heaps[is_small ? 1 : 0]; }

  // A free block of `bytes`, or a small one that is an eighth larger at most, in no list any more,
  // if that would not leave too much beside it unusable: more than `tolerance` of it. Null: there
  // is none.
  PagedBlock* take(size_t bytes, double tolerance) {
    Heap& heap = this->heap(SizePolicy::is_small(bytes));
    PagedBlock* block = heap.quick.take(bytes);
    return block != nullptr ? block : take_range(heap, bytes, tolerance);
  }
  // Nothing of its view is to be brought back any more.
  void forget_host(View& view);
  // The block is free. Merged with its neighbours later.
  void put(PagedBlock* block) {
    if (!heap(block->is_small).quick.put(block)) add_free(block);
  }
  // Merges what was freed; gives how many blocks that were.
  int64_t flush();

  // How often its memory was handed out or taken back, since totals were reset.
  int64_t uses() const;
  bool is_quiet() const { return quiet_uses == uses(); }
  // The stream is there, or there again.
  void is_back() {
    is_gone = false;
    quiet_uses.reset();
  }

  // --- how far counters may rise unseen ----------------------------------------------------------
  Amount net() const;
  void remember_highest();
  void forget_highest() {
    highest_ = {};
    for (Heap& heap : heaps) heap.highest = {};
  }
  Levels need() const { return highest_.need_above(net()); }
  void set_levels(const Levels& together, const std::array<Levels, 2>& own);
  // Nothing more is handed out unseen.
  void forget_levels();
  // That much was freed, but not for sums of what is active: no more is handed out unseen than
  // before.
  void lower_levels(Heap& heap, const Amount& freed);
  // False: somebody must look. Where only the heap's part is used up, it grows at the expense of
  // the other's. `more` is still to be counted, or none.
  [[gnu::always_inline]] bool may_rise(Heap& heap, const Amount& more) {
    Amount net = heap.counters.net();
    net.add(more);
    return heap.levels.allow(net) || may_rise_at_others_expense(heap, more);
  }

  // --- blocks, for whoever rearranges views ------------------------------------------------------
  // A new block in front of `next`, or at the end of the view.
  PagedBlock* insert_block(View& view, AddressRange range, PagedBlock* next);
  void remove_block(PagedBlock* block);
  // Cuts the block in two at `offset` of its view; gives the second part. Neither is in a list.
  PagedBlock* split(PagedBlock* block, size_t offset);
  // A block in no list: free from now on, merged at once.
  void add_free(PagedBlock* block);
  // A block of whole slots in no list: away from now on, one for each slot.
  void add_away(PagedBlock* block);
  void erase_free(PagedBlock* block) { heap(block->view->is_small).ranges.erase(block); }

  PagedPool& pool;
  const StreamId stream;
  const uint64_t serial;
  BiasedMutex<LockRank::kArena> lock;
  std::array<Heap, 2> heaps;
  // Views with free memory, some of which belongs to others. Before a large block is cut out of
  // a free range the engine brings it back there.
  std::vector<View*> hosts;
  UsageStats* pool_usage = nullptr;  // where its counters are added up
  UsageStats* stream_usage = nullptr;
  bool is_gone = false;  // the stream was destroyed: no event tells when its work is done
  // Somebody has waited for all of the device since: the uses that there were before. Ids come
  // back, so that what was used since may be at work again.
  std::optional<int64_t> quiet_uses;
  bool is_lending = false;  // in the plan that is made: its memory counts as idle. The engine's
  // An event in the stream, and how many there were so far. What a trim set apart before the last
  // one was recorded is not in use any more once that is done. The engine's, under its lock.
  std::optional<EventId> marker;
  uint64_t marker_round = 0;

 private:
  [[gnu::noinline]] bool may_rise_at_others_expense(Heap& heap, const Amount& more);
  int64_t flush(Heap& heap);
  PagedBlock* take_range(Heap& heap, size_t bytes, double tolerance);
  PagedBlock* best_range(Heap& heap, size_t bytes, double tolerance, size_t& offset);
  static bool frees_guest(const PagedBlock& block, AddressRange freed);
  PagedBlock* take_block();
  void merge_next(PagedBlock* block);

  BlockTable& addresses_;  // the engine's
  Levels levels_;          // for both heaps together
  Levels highest_;         // likewise

  std::vector<std::unique_ptr<std::array<PagedBlock, 64>>> chunks_;
  PagedBlock* spare_ = nullptr;
};

// What a block at the beginning of a free range, or at its end, makes useless to others: the bytes
// of whole extents, free until now, that it would touch, less its own.
struct EndCosts {
  int64_t at_begin = 0;
  int64_t at_end = 0;

  int64_t least() const { return std::min(at_begin, at_end); }
  bool is_best_at_begin() const { return at_begin <= at_end; }
  friend bool operator==(const EndCosts&, const EndCosts&) = default;
};
EndCosts stranded_bytes(const View& view, AddressRange range, size_t bytes);

}  // namespace ashlar::paged
