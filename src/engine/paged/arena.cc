// SPDX-License-Identifier: Apache-2.0
//
// Finding the range that a block spoils least, cutting it, and merging what is freed.
#include "engine/paged/arena.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/paged/paged_pool.h"

namespace ashlar::paged {
namespace {

// How many ranges are looked at: more find no better ones worth their time (docs/design/paged.md).
constexpr int kCandidates = 4;
constexpr int kMoreCandidates = 12;  // where those were bad

}  // namespace

EndCosts stranded_bytes(const View& view, AddressRange range, size_t bytes) {
  if (view.is_plain) return {};
  const size_t begin = range.begin - view.reserved.begin;
  const size_t end = begin + range.bytes;
  const auto wanted = static_cast<int64_t>(bytes);
  // Whole extents inside; only those at the ends can be partly outside.
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

PagedBlock* Arena::take_range(Heap& heap, size_t bytes, double tolerance) {
  if (!heap.is_small) flush(heap);
  if (!heap.is_small && !hosts.empty()) return nullptr;  // the engine's turn
  size_t offset = 0;
  PagedBlock* range = best_range(heap, bytes, tolerance, offset);
  if (range == nullptr && heap.is_small) {
    flush(heap);
    range = best_range(heap, bytes, tolerance, offset);
  }
  if (range == nullptr) return nullptr;
  heap.ranges.erase(range);
  if (pool.options.no_split) return range;
  const size_t begin = range->view->offset_of(*range);
  if (offset > begin) {
    PagedBlock* block = split(range, offset);
    heap.ranges.insert(range);
    range = block;
  }
  if (range->bytes > bytes) heap.ranges.insert(split(range, offset + bytes));
  return range;
}

// Of the smallest few: where the least becomes useless, and the least is left over.
PagedBlock* Arena::best_range(Heap& heap, size_t bytes, double tolerance, size_t& offset) {
  PagedBlock* best = nullptr;
  int64_t best_cost = INT64_MAX;
  int64_t best_stranded = 0;
  int left = kCandidates;
  const double good_bytes = tolerance * static_cast<double>(bytes);
  const auto is_good = [&] { return static_cast<double>(best_stranded) <= good_bytes; };
  // Looking at more of them is for whoever would look at all views otherwise.
  const int most = heap.patience > 0 ? 0 : kMoreCandidates;
  const auto is_enough = [&] { return left <= -most || (left <= 0 && is_good()); };
  heap.ranges.visit_at_least(bytes, [&](PagedBlock* range) {
    if (heap.is_small) {  // what is useless there is lost in the crowd
      best = range;
      offset = range->view->offset_of(*range);
      return FreeRanges::Next::kNone;
    }
    const View& view = *range->view;
    const size_t begin = view.offset_of(*range);
    const auto rest = static_cast<int64_t>(range->bytes - bytes);
    --left;
    // Nothing is better than to use only what is useless already.
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
  const bool is_taken = best == nullptr || heap.is_small || is_good() || --heap.patience >= 0;
  return is_taken ? best : nullptr;
}

int64_t Arena::flush() {
  int64_t count = 0;
  for (Heap& heap : heaps) count += flush(heap);
  return count;
}

int64_t Arena::flush(Heap& heap) {
  int64_t count = 0;
  heap.quick.flush([&](PagedBlock* block) {
    add_free(block);
    ++count;
  });
  return count;
}

// --- levels -------------------------------------------------------------------------------------

int64_t Arena::uses() const {
  int64_t sum = 0;
  for (const Heap& heap : heaps) sum += heap.counters.risen.count + heap.counters.fallen.count;
  return sum;
}

Amount Arena::net() const {
  Amount sum = heaps[0].counters.net();
  sum.add(heaps[1].counters.net());
  return sum;
}

void Arena::set_levels(const Levels& together, const std::array<Levels, 2>& own) {
  levels_ = together;
  const Levels half = together.room_above(net()).half();
  for (Heap& heap : heaps) {
    heap.own_levels = own[heap.is_small ? 1 : 0];
    heap.rise_from(heap.counters.net(), half);
  }
}

void Arena::remember_highest() {
  highest_ = Levels::higher(highest_, net());
  for (Heap& heap : heaps) heap.highest = Levels::higher(heap.highest, heap.counters.net());
}

void Arena::forget_levels() {
  levels_ = {};
  for (Heap& heap : heaps) heap.levels = heap.own_levels = {};
}

void Arena::lower_levels(Heap& heap, const Amount& freed) {
  levels_ = levels_.below(freed);
  heap.levels = heap.levels.below(freed);
  heap.own_levels = heap.own_levels.below(freed);
}

bool Arena::may_rise_at_others_expense(Heap& heap, const Amount& more) {
  Heap& other = this->heap(!heap.is_small);
  const Amount others = other.counters.net();
  Amount own = heap.counters.net();
  own.add(more);
  Amount together = own;
  together.add(others);
  if (!levels_.allow(together) || !heap.own_levels.allow(own)) return false;
  const Levels half = levels_.room_above(together).half();
  heap.rise_from(own, half);
  other.rise_from(others, half);
  return true;
}

// --- blocks -------------------------------------------------------------------------------------

PagedBlock* Arena::take_block() {
  if (spare_ == nullptr) {
    chunks_.push_back(std::make_unique<std::array<PagedBlock, 64>>());
    for (PagedBlock& block : *chunks_.back()) {
      block.list_next = spare_;
      spare_ = &block;
    }
  }
  PagedBlock* block = spare_;
  spare_ = block->list_next;
  return block;
}

PagedBlock* Arena::insert_block(View& view, AddressRange range, PagedBlock* next) {
  PagedBlock* block = take_block();
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

void Arena::remove_block(PagedBlock* block) {
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
  block->list_next = spare_;
  spare_ = block;
}

PagedBlock* Arena::split(PagedBlock* block, size_t offset) {
  View& view = *block->view;
  const size_t begin = view.offset_of(*block);
  ASHLAR_DCHECK(offset > begin && offset < begin + block->bytes);
  PagedBlock* second =
      insert_block(view, {view.at(offset), begin + block->bytes - offset}, block->next);
  second->state = block->state;
  block->bytes = offset - begin;
  return second;
}

// REQUIRES: both are free and in no list.
void Arena::merge_next(PagedBlock* block) {
  block->bytes += block->next->bytes;
  remove_block(block->next);
}

void Arena::add_free(PagedBlock* block) {
  View& view = *block->view;
  Heap& heap = this->heap(view.is_small);
  const AddressRange freed{block->address, block->bytes};
  block->state = BlockState::kFree;
  addresses_.remove(block);
  const bool may_merge = !pool.options.no_split;
  if (PagedBlock* next = block->next; may_merge && next != nullptr && next->is_in_ranges()) {
    heap.ranges.erase(next);
    merge_next(block);
  }
  if (PagedBlock* before = block->previous;
      may_merge && before != nullptr && before->is_in_ranges()) {
    heap.ranges.erase(before);
    merge_next(before);
    block = before;
  }
  heap.ranges.insert(block);
  if (view.guest_count == 0 || view.in_block_table || !frees_guest(*block, freed)) return;
  view.in_block_table = true;
  hosts.push_back(&view);
}

// Whether it is free as a whole since a part of the block was freed. As it was when it came: where
// it belongs only the engine's lock lets one look.
bool Arena::frees_guest(const PagedBlock& block, AddressRange freed) {
  const View& view = *block.view;
  const size_t begin = view.offset_of(block);
  const size_t freed_end = freed.end() - view.reserved.begin;
  size_t slot = view.slot_at(freed.begin - view.reserved.begin);
  for (size_t at = view.slot_begin(slot); at < freed_end; ++slot) {
    const size_t next = view.slot_end(slot);
    if (next > begin + block.bytes) return false;
    if (at >= begin && view.slots[slot].has_guest) return true;
    at = next;
  }
  return false;
}

void Arena::forget_host(View& view) {
  if (std::exchange(view.in_block_table, false)) std::erase(hosts, &view);
}

void Arena::add_away(PagedBlock* block) {
  View& view = *block->view;
  const size_t end = view.offset_of(*block) + block->bytes;
  block->state = BlockState::kUnmapped;
  for (size_t i = view.slot_at(view.offset_of(*block));; ++i) {
    view.slots[i].away = block;
    block->slot = static_cast<uint32_t>(i);
    if (view.slots[i].end() >= end) return;
    block = split(block, view.slots[i].end());
  }
}

}  // namespace ashlar::paged
