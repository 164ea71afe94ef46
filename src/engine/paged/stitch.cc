// SPDX-License-Identifier: Apache-2.0
//
// What a miss does. In this order: a place in some view whose memory is free or idle elsewhere,
// which costs nothing; idle extents mapped behind one another; new memory from the device for what
// is missing.
#include <algorithm>

#include "base/align.h"
#include "base/units.h"
#include "device/relaxed_capture.h"
#include "engine/paged/all_arenas.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {
namespace {

// What mapping one more extent costs, held against memory: a millisecond for a MiB.
constexpr double kBytesPerUs = double(kMiB) / 1000;
constexpr double kCreateUs = 13;

// How many wasteful places are taken as they are before a better one is looked for, and where
// nothing is left to look for any.
constexpr int64_t kPatience = 16;
constexpr int64_t kLongPatience = 1024;

// What is merged has to be cut again for whoever wants it next.
constexpr int64_t kVisitsOfMerging = 12;

// How many extents all of the memory should be cut into: few are mapped quickly, many waste little.
struct ExtentCount {
  size_t least = 0;
  size_t most = 0;
};

ExtentCount extent_count(PagedPolicy policy) {
  switch (policy) {
    case PagedPolicy::kFast: return {32, 32};
    case PagedPolicy::kLean: return {1024, 1024};
    case PagedPolicy::kBalanced: break;
  }
  return {160, 320};
}

// And how many a block of the usual size should be cut into, as far as those bounds allow.
constexpr size_t kExtentsOfBlock = 8;

}  // namespace

Result<Block*> PagedEngine::stitch(Search& search) {
  const RelaxedCapture relaxed(device_, waiting_.capture_count());
  if (!relaxed.status().ok()) return relaxed.status();
  search.arena->is_back();  // whoever asks is there
  std::set<const Arena*> lenders = find_lenders(search);
  search.is_ample = !can_afford_to_stitch(search);  // before arenas are locked: it looks at sums
  Plan plan;
  Claim claim;
  {
    AllArenas lock(*search.pool);
    int64_t merged = 0;
    for (const auto& [stream, arena] : search.pool->arenas) merged += arena->flush();
    search.pool->budget.spend_visits(kVisitsOfMerging * merged);
    bring_back(*search.arena);
    if (search.is_ample) search.arena->heap(search.is_small).patience = kLongPatience;
    // Something may have become free since it was last looked for: waited for, or by other threads.
    PagedBlock* block = search.arena->take(search.bytes, tolerance_);
    if (block != nullptr) {
      hand_out(*search.arena, block, search.request);
      return block;
    }
    leave_out_gone(*search.pool, lenders);
    if (search.is_ample) plan = plan_ample_growth(search);
    if (!plan.exists) plan = best_plan(search, lenders);
    if (!search.is_ample && options_.policy != PagedPolicy::kLean) {
      search.arena->heap(search.is_small).patience = kPatience;
    }
    search.device_bytes = plan.fresh_bytes;
    Status allowed = plan.fresh_bytes == 0 ? Status() : check_limit(search, plan.fresh_bytes);
    if (!allowed.ok()) return allowed;
    claim = this->claim(plan, search);
  }
  const int64_t begin_ns = clock_.now_ns();
  const Status ready = [&]() ASHLAR_REQUIRES(mutex_) -> Status {
    if (Status ordered = hand_over(claim.lenders, *search.arena); !ordered.ok()) return ordered;
    if (claim.pieces.empty() && plan.fresh_bytes == 0) return {};
    if (claim.view == nullptr) {
      Result<View*> view = new_view(search, std::max(search.bytes, plan.fresh_bytes));
      if (!view.ok()) return view.status();
      claim.view = *view;
    }
    Result<std::vector<Extent*>> fresh =
        create_extents(search, fresh_sizes(search, plan.fresh_bytes));
    if (!fresh.ok()) return fresh.status();
    claim.pieces.insert(claim.pieces.end(), fresh->begin(), fresh->end());
    return map_behind(claim, search);
  }();
  charge_mapping(search, plan.pieces.size(), claim.pieces.size(), begin_ns);
  if (!ready.ok()) {
    give_up(claim);
    if (claim.view != nullptr && claim.view->slots.empty()) release_view(*claim.view);
    return ready;
  }
  if (!plan.pieces.empty()) count_stitch();
  return finish_claim(claim, search);
}

// Whose memory may be used: its own, and that of streams whose work can be waited for. Under `fast`
// nothing is worth waiting for, and the device is asked who has nothing to do, before any arena is
// locked.
std::set<const Arena*> PagedEngine::find_lenders(const Search& search) {
  std::set<const Arena*> lenders = {search.arena};
  if (search.pool->options.never_remap) return lenders;
  // Work of another stream is waited for by an event, which a capture would make its own.
  if (waiting_.is_capturing({&device_, search.arena->stream})) return lenders;
  for (const auto& [stream, arena] : search.pool->arenas) {
    const bool is_waitable =
        (!arena->is_gone || arena->quiet_uses) && !waiting_.is_capturing({&device_, stream});
    if (arena.get() == search.arena || !is_waitable) continue;
    if (options_.policy == PagedPolicy::kFast) {
      const Result<bool> idle = ask_idle(stream);
      if (!idle.ok() || !*idle) continue;
    }
    lenders.insert(arena.get());
  }
  return lenders;
}

// Streams that are gone, unless nothing can be at work in what they left. Under the arenas' locks.
void PagedEngine::leave_out_gone(PagedPool& pool, std::set<const Arena*>& lenders) {
  for (const auto& [stream, arena] : pool.arenas) {
    if (!arena->is_gone || arena->is_quiet()) continue;
    arena->quiet_uses.reset();
    lenders.erase(arena.get());
  }
}

Plan PagedEngine::best_plan(const Search& search, const std::set<const Arena*>& lenders) {
  mark_idle(*search.pool, lenders, search.arena);
  Plan plan = plan_placement(search);
  if (!plan.exists) plan = plan_growth(search);
  search.pool->budget.spend_visits(visited_count_);
  return plan;
}

// The largest first; of these, what is mapped in the fewest places.
std::vector<Extent*> PagedEngine::idle_to_be_mapped(const Search& search) const {
  std::vector<Extent*> idle;
  if (search.pool->options.never_remap) return idle;
  search.pool->idle.for_each_idle([&](uint32_t number) {
    Extent* extent = search.pool->extents[number - 1].get();
    const bool fits = is_shareable() ? extent->bytes == shared_extent_bytes(search.is_small)
                                     : !search.is_small || extent->bytes <= small_extent_bytes();
    if (fits) idle.push_back(extent);
  });
  std::sort(idle.begin(), idle.end(), [](const Extent* a, const Extent* b) {
    if (a->bytes != b->bytes) return a->bytes > b->bytes;
    return a->mappings.size() != b->mappings.size() ? a->mappings.size() < b->mappings.size()
                                                    : a->position < b->position;
  });
  return idle;
}

// Of the views that could grow by what is missing; the longest first, since the less a plan has to
// map, the less it costs.
std::vector<Tail> PagedEngine::tails_to_grow(const Search& search) {
  std::vector<Tail> tails;
  for (const auto& each : search.pool->views) {
    View& view = *each;
    if (view.is_plain || view.is_small != search.is_small) continue;
    const Tail tail = find_tail(view, search);
    const bool has_room = tail.begin + grown_bytes(search) <= view.reserved.bytes;
    if (tail.bytes() > 0 && tail.bytes() < search.bytes && has_room) tails.push_back(tail);
  }
  std::sort(tails.begin(), tails.end(), [](const Tail& a, const Tail& b) {
    return a.bytes() != b.bytes() ? a.bytes() > b.bytes() : a.view->id < b.view->id;
  });
  return tails;
}

// Behind the free end of a view, or wherever there is room: whatever takes the least new memory,
// then the fewest driver calls.
Plan PagedEngine::plan_growth(const Search& search) {
  const std::vector<Extent*> idle = idle_to_be_mapped(search);
  std::vector<size_t> reach = {0};  // of the largest one, of the two largest, ...
  for (const Extent* extent : idle) reach.push_back(reach.back() + extent->bytes);
  // Of a plan that has so much to map: with the largest extents, and no new memory as far as idle
  // memory reaches.
  const auto least_cost = [&](size_t missing) {
    if (missing > reach.back()) return static_cast<double>(missing - reach.back());
    const auto enough = std::lower_bound(reach.begin(), reach.end(), missing);
    return kMapUs * kBytesPerUs * static_cast<double>(enough - reach.begin());
  };
  Plan best = pieces_for(search, nullptr, 0, idle);
  double best_cost = cost_of(search, best);
  for (const Tail& tail : tails_to_grow(search)) {
    if (least_cost(search.bytes - tail.bytes()) >= best_cost) break;
    Plan plan = pieces_for(search, tail.view, tail.bytes(), idle);
    plan.from = tail.first;
    plan.offset = tail.begin;
    const double cost = cost_of(search, plan);
    if (cost >= best_cost) continue;
    best = std::move(plan);
    best_cost = cost;
  }
  place_new_memory(search, best);
  return best;
}

// New memory that could be anywhere goes behind the largest view of its stream: what is taken bit
// by bit lies side by side then, and once it is free it serves blocks of any size without being
// mapped.
void PagedEngine::place_new_memory(const Search& search, Plan& plan) const {
  if (plan.view != nullptr || plan.fresh_bytes == 0) return;
  const size_t grown = std::max(grown_bytes(search), plan.fresh_bytes);
  for (const auto& each : search.pool->views) {
    View& view = *each;
    const bool is_of_its_kind = !view.is_plain && !view.is_retired && view.arena == search.arena &&
                                view.is_small == search.is_small;
    const bool has_room = view.mapped_bytes + grown <= view.reserved.bytes;
    const bool is_larger = plan.view == nullptr || view.mapped_bytes > plan.view->mapped_bytes;
    if (!is_of_its_kind || !has_room || !is_larger) continue;
    const bool has_some =
        std::any_of(plan.pieces.begin(), plan.pieces.end(),
                    [&](const Extent* piece) { return piece->is_mapped_in(&view); });
    if (!has_some) plan.view = &view;
  }
  if (plan.view != nullptr) plan.offset = plan.view->mapped_bytes;
}

// The largest ones first, as long as they fit; then the smallest that covers the rest, unless that
// would waste too much of it.
Plan PagedEngine::pieces_for(const Search& search, View* view, size_t have_bytes,
                             const std::vector<Extent*>& idle) {
  Plan plan;
  plan.view = view;
  plan.exists = true;
  size_t missing = search.bytes - have_bytes;
  const uint64_t round = ++seen_round_;
  if (view != nullptr) {
    for (const Slot& slot : view->slots) {
      if (slot.extent != nullptr) slot.extent->seen_round = round;
    }
  }
  const auto is_there = [round](const Extent* extent) { return extent->seen_round == round; };
  Extent* larger = nullptr;  // the smallest that was larger than what was missing at its turn
  for (auto next = idle.begin(); missing > 0 && next != idle.end();) {
    const auto passed = next;
    next = std::partition_point(next, idle.end(),
                                [&](const Extent* extent) { return extent->bytes > missing; });
    for (auto at = next; at != passed; --at) {
      if (is_there(*std::prev(at))) continue;
      larger = *std::prev(at);
      break;
    }
    if (next == idle.end()) break;
    Extent* extent = *next++;
    if (is_there(extent)) continue;
    plan.pieces.push_back(extent);
    missing -= extent->bytes;
  }
  if (missing > 0 && larger != nullptr && larger->bytes - missing <= spare_bytes(search)) {
    plan.pieces.push_back(larger);
    missing = 0;
  }
  plan.fresh_bytes = align_up_to(missing, growth_step_bytes(search));
  return plan;
}

double PagedEngine::cost_of(const Search& search, const Plan& plan) const {
  const auto fresh = static_cast<double>(fresh_count(search, plan.fresh_bytes));
  const double us = kMapUs * (static_cast<double>(plan.pieces.size()) + fresh) + kCreateUs * fresh;
  return static_cast<double>(plan.fresh_bytes) + us * kBytesPerUs;
}

// By how much the last piece may be larger than what is missing.
size_t PagedEngine::spare_bytes(const Search& search) {
  return std::max(search.bytes / 4, 4 * kMiB);
}

// The most that a request can make a view grow by.
size_t PagedEngine::grown_bytes(const Search& search) const {
  const size_t step = is_shareable() ? shared_extent_bytes(search.is_small) : small_extent_bytes();
  return search.bytes + spare_bytes(search) + step + granule_bytes_;
}

// Memory that other processes may open is described to them by one size of extents.
bool PagedEngine::is_shareable() const {
  return options_.shareable_expandable_segments && device_.properties().can_export_fd;
}

size_t PagedEngine::growth_step_bytes(const Search& search) const {
  if (is_shareable()) return shared_extent_bytes(search.is_small);
  return search.is_small ? small_extent_bytes() : granule_bytes_;
}

size_t PagedEngine::shared_extent_bytes(bool is_small) const {
  return align_up_to(sizes_.expandable_granule_bytes(is_small), granule_bytes_);
}

size_t PagedEngine::small_extent_bytes() const {
  return align_up_to(kSmallSegmentBytes, granule_bytes_);
}

// A share of what there is: with more memory extents grow, so that their number stays within
// bounds, and what each may waste stays a small part of the whole.
size_t PagedEngine::fresh_extent_bytes(const Search& search) const {
  if (is_shareable()) return shared_extent_bytes(search.is_small);
  if (search.is_small) return small_extent_bytes();
  constexpr size_t kLargest = 64 * kMiB;
  const size_t all_bytes = held_bytes_ + search.bytes;
  const ExtentCount count = extent_count(options_.policy);
  const size_t share = std::clamp(search.pool->usual_size.bytes() / kExtentsOfBlock,
                                  all_bytes / count.most, all_bytes / count.least);
  return align_up_to(std::clamp(share, small_extent_bytes(), kLargest), granule_bytes_);
}

// A rest that is not worth a call of its own joins the last one.
size_t PagedEngine::fresh_count(const Search& search, size_t bytes) const {
  const size_t each = fresh_extent_bytes(search);
  return bytes == 0 ? 0 : std::max(size_t{1}, (bytes + each / 2) / each);
}

std::vector<size_t> PagedEngine::fresh_sizes(const Search& search, size_t bytes) const {
  std::vector<size_t> sizes(fresh_count(search, bytes), fresh_extent_bytes(search));
  if (!sizes.empty()) sizes.back() = bytes - (sizes.size() - 1) * sizes.front();
  return sizes;
}

}  // namespace ashlar::paged
