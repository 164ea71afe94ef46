// SPDX-License-Identifier: Apache-2.0
//
// Where a view has room for a miss: stretches of its addresses whose memory is free there, or idle
// elsewhere and could come back. Plans look at packed numbers first, and at a block or a slot only
// where those promise enough.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {
namespace {

// What it costs to use other streams' memory, whose work must be waited for: so much of it could
// as well become useless.
constexpr double kBorrowing = 0.25;

// Looking at more finds nothing better that is worth its time (docs/design/paged.md).
constexpr int64_t kEnoughVisits = 200;

// What is counted as a visit takes about as long as a look at a block that is in no cache.
constexpr int64_t kVisitsOfRange = 2;
constexpr int64_t kVisitsOfPlaces = 4;  // looking closer at both ends of a stretch
constexpr size_t kPackedInVisit = 2;

int64_t visits_of_packed(size_t count) { return static_cast<int64_t>(count / kPackedInVisit) + 1; }

}  // namespace

// Those inside free blocks, and those without a home.
void PagedEngine::mark_idle(PagedPool& pool, const std::set<const Arena*>& lenders,
                            const Arena* asking) {
  IdleMap& idle = pool.idle;
  idle.forget_all();
  ++idle_round_;
  int64_t visited = visits_of_packed(pool.extents.size());
  for (const auto& [stream, arena] : pool.arenas) {
    arena->is_lending = lenders.contains(arena.get());
    if (!arena->is_lending) continue;
    const bool is_borrowed = arena.get() != asking;
    for (Heap& heap : arena->heaps) {
      heap.ranges.visit_at_least(granule_bytes_, [&, round = idle_round_](PagedBlock* block) {
        View& view = *block->view;
        if (view.is_plain) return FreeRanges::Next::kAny;
        if (std::exchange(view.idle_round, round) != round) view.idle_count = 0;
        visited += kVisitsOfRange;
        const size_t begin = view.offset_of(*block);
        const size_t end = begin + block->bytes;
        size_t slot = view.slot_at(begin);
        for (size_t slot_begin = view.slot_begin(slot); slot_begin < end; ++slot) {
          const size_t slot_end = view.slot_end(slot);
          const uint32_t extent = view.packed[slot].extent;
          if (slot_begin >= begin && slot_end <= end) {
            idle.set_idle(extent, block, is_borrowed);
            ++view.idle_count;
          } else if (slot_end <= end) {
            idle.set_free_end(extent, slot_end - begin);
          } else if (slot_begin >= begin) {
            idle.set_free_begin(extent, end - slot_begin);
          }
          slot_begin = slot_end;
        }
        return FreeRanges::Next::kAny;
      });
    }
  }
  idle.for_each_homeless([&](uint32_t number) {
    const Extent& extent = *pool.extents[number - 1];
    if (extent.is_leaving || !extent.arena->is_lending) return;
    idle.set_idle(number, nullptr, extent.arena != asking);
  });
  visited_count_ = visited;
}

// The place in a view where the least becomes useless, and little is borrowed. Old views mostly
// have other addresses of what later ones have, too: once enough has been seen, a place that is not
// bad will do. Where looking is scarce, so will the first one of the very size.
Plan PagedEngine::plan_placement(const Search& search) {
  BestPlace best{search.bytes};
  const bool must_see_all = options_.policy == PagedPolicy::kLean;
  const bool is_scarce = !must_see_all && search.pool->budget.is_scarce();
  const int64_t enough = must_see_all ? INT64_MAX : visited_count_ + kEnoughVisits;
  for (const auto& view : search.pool->views) {
    const bool is_good = best.cost <= static_cast<int64_t>(search.bytes);
    if ((visited_count_ >= enough && is_good) || (is_scarce && best.is_perfect)) break;
    ++visited_count_;
    if (view->is_plain || view->is_small != search.is_small) continue;
    if (view->mapped_bytes < search.bytes) continue;
    if (may_use(*view, search)) consider_runs(*view, search.pool->idle, best);
  }
  Plan& plan = best.plan;
  while (plan.exists && plan.view->offset_of(*plan.from) + plan.from->bytes <= plan.offset) {
    plan.from = plan.from->next;
  }
  return plan;
}

// Nothing is better than to use what is useless already.
bool BestPlace::could_be_better(size_t idle_bytes, size_t beside_bytes) const {
  if (idle_bytes + beside_bytes < wanted_bytes) return false;
  const size_t rest = std::max(idle_bytes, wanted_bytes) - wanted_bytes;
  const auto useless = static_cast<int64_t>(std::min(beside_bytes, wanted_bytes));
  return static_cast<int64_t>(rest / 2) - useless < cost;
}

void BestPlace::consider(View& view, const Run& run) {
  const size_t run_bytes = run.end - run.begin;
  if (run_bytes < wanted_bytes) return;
  const auto rest = static_cast<int64_t>(run_bytes - wanted_bytes);
  const AddressRange range{view.at(run.begin), run_bytes};
  const double borrowed = static_cast<double>(run.borrowed_bytes) / static_cast<double>(run_bytes) *
                          static_cast<double>(wanted_bytes);
  const auto waiting = static_cast<int64_t>(kBorrowing * borrowed);
  const EndCosts ends = stranded_bytes(view, range, wanted_bytes);
  const int64_t costs = ends.least() + rest / 2 + waiting;
  if (costs >= cost) return;
  cost = costs;
  is_perfect = rest == 0 && costs <= 0;
  plan.view = &view;
  plan.from = run.first;
  plan.offset = ends.is_best_at_begin() ? run.begin : run.end - wanted_bytes;
  plan.exists = true;
}

// Its addresses: a view of another stream that somebody uses stays there. What is at home in it and
// not idle is used.
bool PagedEngine::may_use(const View& view, const Search& search) const {
  if (view.arena == search.arena) return true;
  const uint32_t idle_count = view.idle_round == idle_round_ ? view.idle_count : 0;
  return view.arena->is_lending && view.home_count == idle_count;
}

// Stretches with at least one whole slot that is idle: what has none is part of two slots at most,
// and `stitch` takes a free range of that kind before it plans.
void PagedEngine::consider_runs(View& view, const IdleMap& idle, BestPlace& best) {
  const std::vector<PackedSlot>& slots = view.packed;
  visited_count_ += visits_of_packed(slots.size());
  for (size_t first = 0; first < slots.size(); ++first) {
    if (!idle.could_serve(slots[first])) continue;
    size_t end = first + 1;
    while (end < slots.size() && idle.could_serve(slots[end])) ++end;
    const size_t begins = first == 0 ? 0 : slots[first - 1].end;
    const size_t idle_bytes = (slots[end - 1].end - begins) * granule_bytes_;
    // What is free beside them, or one granule more: less than that is not noted.
    size_t beside_bytes = 0;
    if (first > 0 && idle.is_at_home(slots[first - 1].extent, view)) {
      beside_bytes += granule_bytes_ + idle.free_end_bytes(slots[first - 1].extent);
    }
    if (end < slots.size() && idle.is_at_home(slots[end].extent, view)) {
      beside_bytes += granule_bytes_ + idle.free_begin_bytes(slots[end].extent);
    }
    if (best.could_be_better(idle_bytes, beside_bytes)) {
      visited_count_ += kVisitsOfPlaces;
      best.consider(view, run_around(view, first, end, idle));
    }
    first = end;
  }
}

// REQUIRES: the slots [first, end) could serve, and those beside them could not.
Run PagedEngine::run_around(const View& view, size_t first, size_t end, const IdleMap& idle) {
  const auto block_at = [&](size_t slot) {
    const uint32_t number = view.packed[slot].extent;
    return idle.is_at_home(number, view) ? idle.block_of(number) : view.slots[slot].away;
  };
  PagedBlock* begin_block = block_at(first);
  PagedBlock* before = begin_block->previous;
  if (begin_block->is_away() && before != nullptr && before->is_in_ranges()) begin_block = before;
  PagedBlock* end_block = block_at(end - 1);
  PagedBlock* after = end_block->next;
  if (end_block->is_away() && after != nullptr && after->is_in_ranges()) end_block = after;

  Run run{begin_block, view.offset_of(*begin_block), view.offset_of(*end_block) + end_block->bytes};
  for (size_t i = first; i < end; ++i) {
    if (idle.is_borrowed(view.packed[i].extent)) run.borrowed_bytes += view.slots[i].bytes;
  }
  return run;
}

// The stretch at the end, which is empty where that is in use.
Tail PagedEngine::find_tail(View& view, const Search& search) {
  const Tail nothing{&view, nullptr, view.mapped_bytes};
  if (!may_use(view, search)) return nothing;
  const IdleMap& idle = search.pool->idle;
  size_t first = view.packed.size();
  while (first > 0 && idle.could_serve(view.packed[first - 1])) --first;
  visited_count_ += 1 + visits_of_packed(view.packed.size() - first);
  if (first < view.packed.size()) {
    const Run run = run_around(view, first, view.packed.size(), idle);
    return {&view, run.first, run.begin};
  }
  const bool is_free = view.last != nullptr && view.last->is_in_ranges();
  return is_free ? Tail{&view, view.last, view.offset_of(*view.last)} : nothing;
}

PackedSlot PagedEngine::packed(const View& view, size_t index) const {
  const Slot& slot = view.slots[index];
  const bool is_usable = slot.extent != nullptr && slot.is_open && !slot.is_retired();
  const uint32_t number = slot.extent != nullptr ? IdleMap::number_of(*slot.extent) : 0;
  return {number & INT32_MAX, is_usable, static_cast<uint32_t>(slot.end() / granule_bytes_)};
}

}  // namespace ashlar::paged
