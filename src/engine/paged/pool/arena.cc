// SPDX-License-Identifier: Apache-2.0
//
// Chooses the free range in which a block strands the fewest bytes, splits it, and merges freed
// blocks.
#include "engine/paged/pool/arena.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/paged/pool/paged_pool.h"

namespace ashlar::paged {
namespace {

// Number of ranges that are compared. A prototype that compared all free ranges saved at most 0.3 %
// of the memory (docs/internals/experiments/paged_engine.md).
constexpr int kCandidates = 4;
// Number of further ranges that are compared if the first kCandidates are wasteful. Compared with
// 12, the recorded runs reserve 0.1 % more memory with 0 and the same amount with 6 or 24.
constexpr int kMoreCandidates = 12;

}  // namespace

EndCosts stranded_bytes(const View& view, AddressRange range, size_t bytes) {
  if (view.is_plain) return {};
  const size_t begin = range.begin - view.reserved.begin;
  const size_t end = begin + range.bytes;
  const auto wanted = static_cast<int64_t>(bytes);
  // Only the first and the last extent can be partly outside of the range.
  const size_t first = view.slot_at(begin);
  const size_t last = view.slot_at(end - 1);
  const size_t whole_begin = view.slot_begin(first) == begin ? begin : view.slot_end(first);
  const size_t whole_end = view.slot_end(last) == end ? end : view.slot_begin(last);
  if (whole_begin >= whole_end) return {-wanted, -wanted};
  EndCosts costs{-wanted, -wanted};
  if (begin + bytes > whole_begin) {
    const size_t touched_end = view.slot_end(view.slot_at(begin + bytes - 1));
    costs.at_begin += static_cast<int64_t>(std::min(touched_end, whole_end) - whole_begin);
  }
  if (end - bytes < whole_end) {
    const size_t touched_begin = view.slot_begin(view.slot_at(end - bytes));
    costs.at_end += static_cast<int64_t>(whole_end - std::max(touched_begin, whole_begin));
  }
  return costs;
}

PagedBlock* Arena::take_range(SubArena& sub, size_t bytes, double max_waste) {
  if (!sub.is_small) flush(sub);
  if (!sub.is_small && !return_queue.empty())
    return nullptr;  // ExtentMover::return_displaced must run first
  size_t offset = 0;
  PagedBlock* range = best_range(sub, bytes, max_waste, offset);
  if (range == nullptr && sub.is_small && flush(sub) > 0) {
    range = best_range(sub, bytes, max_waste, offset);
  }
  if (range == nullptr) return nullptr;
  fill_reserve(2);
  sub.ranges.erase(range);
  if (pool.options.no_split) return range;
  const size_t begin = range->view->offset_of(*range);
  if (offset > begin) {
    PagedBlock* block = split(range, offset);
    sub.ranges.insert(range);
    range = block;
  }
  if (range->bytes > bytes) sub.ranges.insert(split(range, offset + bytes));
  return range;
}

// Returns the range with the lowest cost among the smallest ranges that fit. The cost is the
// stranded bytes plus half of the remainder. With a quarter or all of the remainder, the recorded
// runs reserve 0.1 % more memory (docs/internals/experiments/paged_engine.md).
PagedBlock* Arena::best_range(SubArena& sub, size_t bytes, double max_waste, size_t& offset) {
  PagedBlock* best = nullptr;
  int64_t best_cost = INT64_MAX;
  int64_t best_stranded = 0;
  int left = kCandidates;
  const double good_bytes = max_waste * static_cast<double>(bytes);
  const auto is_good = [&] { return static_cast<double>(best_stranded) <= good_bytes; };
  // More candidates are worthwhile only if the planner would otherwise search all views.
  const int more = sub.wasteful_fits_left > 0 ? 0 : kMoreCandidates;
  const auto is_enough = [&] { return left <= -more || (left <= 0 && is_good()); };
  sub.ranges.visit_at_least(bytes, [&](PagedBlock* range) {
    if (sub.is_small) {  // first fit: stranded small extents are negligible
      best = range;
      offset = range->view->offset_of(*range);
      return FreeRanges::Next::kNone;
    }
    const View& view = *range->view;
    const size_t begin = view.offset_of(*range);
    const auto rest = static_cast<int64_t>(range->bytes - bytes);
    --left;
    // A lower bound of the cost, reached if the block touches no whole free extent.
    if (rest / 2 - static_cast<int64_t>(bytes) >= best_cost) {
      return is_enough() ? FreeRanges::Next::kNone : FreeRanges::Next::kNotLarger;
    }
    const EndCosts ends = stranded_bytes(view, {range->address, range->bytes}, bytes);
    if (ends.least() + rest / 2 < best_cost) {
      best = range;
      best_cost = ends.least() + rest / 2;
      best_stranded = ends.least();
      offset = ends.is_best_at_begin() ? begin : begin + static_cast<size_t>(rest);
    }
    return rest == 0 || is_enough() ? FreeRanges::Next::kNone : FreeRanges::Next::kAny;
  });
  const bool is_accepted =
      best == nullptr || sub.is_small || is_good() || --sub.wasteful_fits_left >= 0;
  return is_accepted ? best : nullptr;
}

int64_t Arena::flush() noexcept {
  int64_t count = 0;
  for (SubArena& sub : sub_arenas) count += flush(sub);
  return count;
}

int64_t Arena::flush(SubArena& sub) noexcept {
  int64_t count = 0;
  quick.flush(sub.is_small, [&](PagedBlock* block) {
    add_free(block);
    ++count;
  });
  return count;
}

int64_t Arena::use_count() const {
  int64_t sum = 0;
  for (const SubArena& sub : sub_arenas) {
    sum += sub.counters.total_allocated.count + sub.counters.total_freed.count;
  }
  return sum;
}

Amount Arena::net() const {
  Amount sum = sub_arenas[0].counters.net();
  sum.add(sub_arenas[1].counters.net());
  return sum;
}

void Arena::set_levels(const PeakLevel& both, const std::array<PeakLevel, 2>& by_size) {
  level_ = both;
  PeakHeadroom headroom = both.headroom_above(net());
  const bool is_shared = !sub_arenas[0].counters.is_unused() && !sub_arenas[1].counters.is_unused();
  if (is_shared) headroom = headroom.half();
  for (SubArena& sub : sub_arenas) {
    if (sub.counters.is_unused()) continue;
    sub.size_level = by_size[sub.is_small ? 1 : 0];
    sub.set_level(sub.counters.net(), headroom);
  }
}

void Arena::remove_headroom() {
  level_ = PeakLevel::above(net(), {});
  for (SubArena& sub : sub_arenas) {
    if (sub.counters.is_unused()) continue;
    sub.size_level = sub.level = PeakLevel::above(sub.counters.net(), {});
  }
}

void Arena::raise_highest() {
  highest_.raise_to(net());
  for (SubArena& sub : sub_arenas) sub.highest.raise_to(sub.counters.net());
}

void Arena::clear_levels() {
  level_ = {};
  for (SubArena& sub : sub_arenas) sub.level = sub.size_level = {};
}

void Arena::lower_levels(SubArena& sub, const Amount& freed) {
  level_.lower_by(freed);
  sub.level.lower_by(freed);
  sub.size_level.lower_by(freed);
}

bool Arena::rebalance_levels(SubArena& sub, const Amount& more) {
  SubArena& other = sub_arena(!sub.is_small);
  const Amount other_net = other.counters.net();
  Amount sub_net = sub.counters.net();
  sub_net.add(more);
  Amount together = sub_net;
  together.add(other_net);
  if (!level_.allows(together) || !sub.size_level.allows(sub_net)) return false;
  const PeakHeadroom half = level_.headroom_above(together).half();
  sub.set_level(sub_net, half);
  other.set_level(other_net, half);
  return true;
}

PagedBlock* Arena::insert_block(View& view, AddressRange range, PagedBlock* next) noexcept {
  PagedBlock* block = reserve_.take();
  block->state = BlockState::kPending;
  block->address = range.begin;
  block->bytes = range.bytes;
  block->stream = stream;
  block->arena = this;
  block->view = &view;
  block->is_small = view.is_small;
  block->requested_bytes = 0;
  block->is_uncached = false;
  block->next = next;
  block->previous = next == nullptr ? view.last : next->previous;
  if (block->previous != nullptr) {
    block->previous->next = block;
  } else {
    view.first = block;
  }
  if (next != nullptr) {
    next->previous = block;
  } else {
    view.last = block;
  }
  return block;
}

void Arena::remove_block(PagedBlock* block) noexcept {
  View& view = *block->view;
  if (block->previous != nullptr) {
    block->previous->next = block->next;
  } else {
    view.first = block->next;
  }
  if (block->next != nullptr) {
    block->next->previous = block->previous;
  } else {
    view.last = block->previous;
  }
  block->view = nullptr;
  reserve_.put_back(block);
}

PagedBlock* Arena::split(PagedBlock* block, size_t offset) noexcept {
  View& view = *block->view;
  const size_t begin = view.offset_of(*block);
  ASHLAR_DCHECK(offset > begin && offset < begin + block->bytes);
  PagedBlock* second =
      insert_block(view, {view.at(offset), begin + block->bytes - offset}, block->next);
  second->state = block->state;
  block->bytes = offset - begin;
  return second;
}

PagedBlock* Arena::split_front(PagedBlock* block, size_t offset) noexcept {
  View& view = *block->view;
  const size_t begin = view.offset_of(*block);
  ASHLAR_DCHECK(offset > begin && offset < begin + block->bytes);
  PagedBlock* first = insert_block(view, {block->address, offset - begin}, block);
  first->state = block->state;
  block->address = view.at(offset);
  block->bytes -= offset - begin;
  return first;
}

// Merges the block with its successor. REQUIRES: both are free and on no list.
void Arena::merge_next(PagedBlock* block) noexcept {
  block->bytes += block->next->bytes;
  remove_block(block->next);
}

void Arena::add_free(PagedBlock* block) noexcept {
  View& view = *block->view;
  SubArena& sub = sub_arena(view.is_small);
  const AddressRange freed{block->address, block->bytes};
  block->state = BlockState::kFree;
  addresses_.remove(block);
  const bool may_merge = !pool.options.no_split;
  if (PagedBlock* next = block->next; may_merge && next != nullptr && next->is_in_ranges()) {
    sub.ranges.erase(next);
    merge_next(block);
  }
  if (PagedBlock* before = block->previous;
      may_merge && before != nullptr && before->is_in_ranges()) {
    sub.ranges.erase(before);
    merge_next(before);
    block = before;
  }
  sub.ranges.insert(block);
  if (view.displaced_count == 0 || view.return_queue.is_queued ||
      !frees_displaced_extent(*block, freed))
    return;
  return_queue.add(view);
}

// Whether freeing the range `freed` makes a whole displaced extent in the free block idle. Reads
// `Slot::has_displaced` instead of the extent's origin, which the engine's lock guards.
bool Arena::frees_displaced_extent(const PagedBlock& block, AddressRange freed) {
  const View& view = *block.view;
  const size_t begin = view.offset_of(block);
  const size_t freed_end = freed.end() - view.reserved.begin;
  size_t slot = view.slot_at(freed.begin - view.reserved.begin);
  for (size_t slot_offset = view.slot_begin(slot); slot_offset < freed_end; ++slot) {
    const size_t next = view.slot_end(slot);
    if (next > begin + block.bytes) return false;
    if (slot_offset >= begin && view.slots[slot].has_displaced) return true;
    slot_offset = next;
  }
  return false;
}

void Arena::add_detached(PagedBlock* block) noexcept {
  View& view = *block->view;
  const size_t end = view.offset_of(*block) + block->bytes;
  block->state = BlockState::kUnmapped;
  for (size_t i = view.slot_at(view.offset_of(*block));; ++i) {
    view.slots[i].detached_block = block;
    block->slot = static_cast<uint32_t>(i);
    if (view.slots[i].end() >= end) return;
    block = split(block, view.slots[i].end());
  }
}

}  // namespace ashlar::paged
