// SPDX-License-Identifier: Apache-2.0
//
// Searches for the place of a block. Scans packed slots first, and reads a block or a slot only if
// that could yield a better place.
#include "engine/paged/pool/planner.h"

#include <algorithm>

#include "base/align.h"
#include "base/units.h"

namespace ashlar::paged {
namespace {

// The cost, in stranded bytes, of borrowing a byte from another stream, for whose work the
// requesting stream must wait. A mixture-of-experts run reserves 1.032 to 1.035 times its peak of
// live bytes for all values from 0 to 0.5, and 1.26 times for 1
// (docs/internals/experiments/paged_engine.md).
constexpr double kBorrowCost = 0.25;

// After this many visits, a search ends as soon as BestPlace::is_good returns true. With 1,000, the
// recorded runs reserve the same amount of memory, and a mixture-of-experts run needs 50 % more
// host time.
constexpr int64_t kEnoughVisits = 200;

// The number of visits for considering one place: the blocks at both ends of a range, and their
// neighbours (Planner::range_around).
constexpr int64_t kVisitsPerPlace = 4;

// The exchange rate between driver time and memory: one millisecond costs as much as one MiB.
// Halving or doubling it changes no recorded run; with 0, the recorded runs reserve 0.1 % more
// memory (docs/internals/experiments/paged_engine.md).
constexpr double kByteCostPerDriverUs = double(kMiB) / 1000;

}  // namespace

// A range of a view whose memory is free in that view, or is idle and can be attached to it.
struct Planner::UsableRange {
  PagedBlock* first = nullptr;
  size_t begin = 0;
  size_t end = 0;
  size_t borrowed_bytes = 0;  // bytes last used by other streams
};

// The usable end of a view.
struct Planner::Tail {
  View* view = nullptr;
  PagedBlock* first = nullptr;  // null: the end is in use
  size_t begin = 0;

  size_t bytes() const { return view->mapped_bytes - begin; }
};

// The cheapest place found so far.
class Planner::BestPlace {
 public:
  explicit BestPlace(size_t wanted_bytes) : wanted_bytes_(wanted_bytes) {}

  const Plan& plan() const { return plan_; }
  // Whether the place costs no more bytes than the request uses.
  bool is_good() const { return cost_ <= static_cast<int64_t>(wanted_bytes_); }
  // Whether the place has exactly the wanted size and strands nothing.
  bool is_perfect() const { return is_perfect_; }

  // Whether a range of `idle_bytes`, with at most `beside_bytes` of free memory next to it, could
  // contain a cheaper place.
  bool could_improve(size_t idle_bytes, size_t beside_bytes) const {
    if (idle_bytes + beside_bytes < wanted_bytes_) return false;
    const size_t rest = std::max(idle_bytes, wanted_bytes_) - wanted_bytes_;
    const auto stranded = static_cast<int64_t>(std::min(beside_bytes, wanted_bytes_));
    return static_cast<int64_t>(rest / 2) - stranded < cost_;
  }
  // Keeps the cheapest place in the range if it is cheaper than the best one so far. The cost
  // includes half of the remainder, as in Arena::best_range.
  void consider(View& view, const UsableRange& range) {
    const size_t range_bytes = range.end - range.begin;
    if (range_bytes < wanted_bytes_) return;
    const auto rest = static_cast<int64_t>(range_bytes - wanted_bytes_);
    const double borrowed = static_cast<double>(range.borrowed_bytes) /
                            static_cast<double>(range_bytes) * static_cast<double>(wanted_bytes_);
    const EndCosts ends = stranded_bytes(view, {view.at(range.begin), range_bytes}, wanted_bytes_);
    const int64_t cost = ends.least() + rest / 2 + static_cast<int64_t>(kBorrowCost * borrowed);
    if (cost >= cost_) return;
    cost_ = cost;
    is_perfect_ = rest == 0 && cost <= 0;
    plan_.view = &view;
    plan_.from = range.first;
    plan_.offset = ends.is_best_at_begin() ? range.begin : range.end - wanted_bytes_;
    plan_.exists = true;
  }

 private:
  const size_t wanted_bytes_;
  Plan plan_{};
  int64_t cost_ = INT64_MAX;
  bool is_perfect_ = false;
};

Plan Planner::plan(const PlanRequest& request) {
  visit_count_ = mark_idle_extents(request.pool, request.pool.candidates.arenas(), &request.arena,
                                   sizing_.granule_bytes());
  Plan plan = plan_in_place(request);
  if (!plan.exists) plan = plan_growth(request);
  request.pool.budget.spend_visits(visit_count_);
  return plan;
}

Plan Planner::plan_new_memory(const PlanRequest& request, size_t new_bytes) const {
  Plan plan;
  plan.new_bytes = new_bytes;
  plan.exists = true;
  place_new_memory(request, plan);
  return plan;
}

// Views are searched in the order of their creation. The order must not depend on recent use, or a
// program that repeats its requests would get different addresses in every iteration. Old views
// mostly map the same idle memory at other addresses, so the search may end early.
Plan Planner::plan_in_place(const PlanRequest& request) {
  BestPlace best(request.bytes);
  const bool is_scarce = !searches_all_views_ && request.pool.budget.is_planning_scarce();
  const int64_t enough = searches_all_views_ ? INT64_MAX : visit_count_ + kEnoughVisits;
  for (View* view : request.pool.candidates.views()) {
    if (visit_count_ >= enough && best.is_good()) break;
    if (is_scarce && best.is_perfect()) break;
    ++visit_count_;
    if (view->is_plain || view->is_small != request.is_small) continue;
    if (view->mapped_bytes < request.bytes) continue;
    if (may_use(*view, request)) consider_ranges(*view, request.pool.idle, best);
  }
  Plan plan = best.plan();
  while (plan.exists && plan.view->offset_of(*plan.from) + plan.from->bytes <= plan.offset) {
    plan.from = plan.from->next;
  }
  return plan;
}

// Views of other streams can be taken over only if none of their attached extents is in use.
bool Planner::may_use(const View& view, const PlanRequest& request) {
  if (view.arena == &request.arena) return true;
  const uint32_t idle_count = view.planning.idle_count_in_scan(request.pool.idle.round());
  return view.arena->is_lending && view.attached_count == idle_count;
}

// Considers ranges with at least one whole idle slot. All other free ranges cover only parts of at
// most two slots, and the arena has already been searched for such ranges.
void Planner::consider_ranges(View& view, const IdleMap& idle, BestPlace& best) {
  const std::vector<PackedSlot>& slots = view.packed;
  const size_t granule_bytes = view.granule_bytes;
  visit_count_ += visits_of_packed(slots.size());
  for (size_t first = 0; first < slots.size(); ++first) {
    if (!idle.can_serve(slots[first])) continue;
    size_t end = first + 1;
    while (end < slots.size() && idle.can_serve(slots[end])) ++end;
    const size_t begins = first == 0 ? 0 : slots[first - 1].end;
    const size_t idle_bytes = (slots[end - 1].end - begins) * granule_bytes;
    // An upper bound of the free bytes next to the range. Adds a granule per side, because
    // `mark_idle_extents` reports 0 for a free range smaller than a granule.
    size_t beside_bytes = 0;
    if (first > 0 && idle.is_attached_to(slots[first - 1].extent, view)) {
      beside_bytes += granule_bytes + idle.free_end_bytes(slots[first - 1].extent);
    }
    if (end < slots.size() && idle.is_attached_to(slots[end].extent, view)) {
      beside_bytes += granule_bytes + idle.free_begin_bytes(slots[end].extent);
    }
    if (best.could_improve(idle_bytes, beside_bytes)) {
      visit_count_ += kVisitsPerPlace;
      best.consider(view, range_around(view, first, end, idle));
    }
    first = end;
  }
}

// Returns the usable range that contains the slots [first, end), including free memory next to
// them. REQUIRES: these slots are usable for the request, and their neighbours are not.
Planner::UsableRange Planner::range_around(const View& view, size_t first, size_t end,
                                           const IdleMap& idle) {
  const auto block_at = [&](size_t slot) {
    const uint32_t number = view.packed[slot].extent;
    return idle.is_attached_to(number, view) ? idle.block_of(number)
                                             : view.slots[slot].detached_block;
  };
  PagedBlock* begin_block = block_at(first);
  PagedBlock* before = begin_block->previous;
  if (begin_block->is_detached() && before != nullptr && before->is_in_ranges()) {
    begin_block = before;
  }
  PagedBlock* end_block = block_at(end - 1);
  PagedBlock* after = end_block->next;
  if (end_block->is_detached() && after != nullptr && after->is_in_ranges()) end_block = after;

  UsableRange range{begin_block, view.offset_of(*begin_block),
                    view.offset_of(*end_block) + end_block->bytes};
  for (size_t i = first; i < end; ++i) {
    if (idle.is_borrowed(view.packed[i].extent)) range.borrowed_bytes += view.slots[i].bytes;
  }
  return range;
}

// Chooses the plan with the lowest cost: its new memory plus its driver time, converted to bytes.
Plan Planner::plan_growth(const PlanRequest& request) {
  const std::vector<Extent*> idle = reusable_extents(request);
  std::vector<size_t> reach = {0};  // bytes of the largest extent, of the two largest, ...
  for (const Extent* extent : idle) reach.push_back(reach.back() + extent->bytes);
  // Returns a lower bound on the cost of a plan that has to map `missing` more bytes.
  const auto min_cost = [&](size_t missing) {
    if (missing > reach.back()) return static_cast<double>(missing - reach.back());
    const auto enough = std::lower_bound(reach.begin(), reach.end(), missing);
    return kMapUs * kByteCostPerDriverUs * static_cast<double>(enough - reach.begin());
  };
  Plan best = choose_pieces(request, nullptr, 0, idle);
  double best_cost = cost_of(request, best);
  for (const Tail& tail : growable_tails(request)) {
    if (min_cost(request.bytes - tail.bytes()) >= best_cost) break;
    Plan plan = choose_pieces(request, tail.view, tail.bytes(), idle);
    plan.from = tail.first;
    plan.offset = tail.begin;
    const double cost = cost_of(request, plan);
    if (cost >= best_cost) continue;
    best = std::move(plan);
    best_cost = cost;
  }
  place_new_memory(request, best);
  return best;
}

// Returns the idle extents that the request may use, sorted by size, largest first; among equal
// sizes, by number of mappings, fewest first.
std::vector<Extent*> Planner::reusable_extents(const PlanRequest& request) const {
  std::vector<Extent*> idle;
  if (request.pool.options.never_remap) return idle;
  request.pool.idle.for_each_idle([&](uint32_t number) {
    Extent* extent = request.pool.extents[number - 1].get();
    if (sizing_.can_reuse(extent->bytes, request.is_small)) idle.push_back(extent);
  });
  std::sort(idle.begin(), idle.end(), [](const Extent* a, const Extent* b) {
    if (a->bytes != b->bytes) return a->bytes > b->bytes;
    return a->mappings.size() != b->mappings.size() ? a->mappings.size() < b->mappings.size()
                                                    : a->index < b->index;
  });
  return idle;
}

// Returns the usable ends of views, longest first, because growing the longest one maps the least
// memory.
std::vector<Planner::Tail> Planner::growable_tails(const PlanRequest& request) {
  const size_t max_growth = sizing_.max_growth_bytes(request.bytes, request.is_small);
  std::vector<Tail> tails;
  for (View* view : request.pool.candidates.views()) {
    if (view->is_plain || view->is_small != request.is_small) continue;
    const Tail tail = find_tail(*view, request);
    const bool has_addresses = tail.begin + max_growth <= view->reserved.bytes;
    if (tail.bytes() > 0 && tail.bytes() < request.bytes && has_addresses) tails.push_back(tail);
  }
  std::sort(tails.begin(), tails.end(), [](const Tail& a, const Tail& b) {
    return a.bytes() != b.bytes() ? a.bytes() > b.bytes() : a.view->id < b.view->id;
  });
  return tails;
}

Planner::Tail Planner::find_tail(View& view, const PlanRequest& request) {
  const Tail nothing{&view, nullptr, view.mapped_bytes};
  if (!may_use(view, request)) return nothing;
  const IdleMap& idle = request.pool.idle;
  size_t first = view.packed.size();
  while (first > 0 && idle.can_serve(view.packed[first - 1])) --first;
  visit_count_ += 1 + visits_of_packed(view.packed.size() - first);
  if (first < view.packed.size()) {
    const UsableRange range = range_around(view, first, view.packed.size(), idle);
    return {&view, range.first, range.begin};
  }
  const bool is_free = view.last != nullptr && view.last->is_in_ranges();
  return is_free ? Tail{&view, view.last, view.offset_of(*view.last)} : nothing;
}

// Takes the largest extents that fit, then the smallest extent that covers the remainder, unless it
// exceeds the remainder by more than max_overshoot_bytes. Skips extents that are already mapped in
// the view.
Plan Planner::choose_pieces(const PlanRequest& request, View* view, size_t have_bytes,
                            const std::vector<Extent*>& idle) {
  Plan plan;
  plan.view = view;
  plan.exists = true;
  size_t missing = request.bytes - have_bytes;
  const uint64_t round = ++round_;
  if (view != nullptr) {
    for (const Slot& slot : view->slots) {
      if (slot.extent != nullptr) slot.extent->planner_round = round;
    }
  }
  const auto is_in_view = [round](const Extent* extent) { return extent->planner_round == round; };
  Extent* larger = nullptr;  // the smallest extent skipped because it exceeded `missing`
  for (auto next = idle.begin(); missing > 0 && next != idle.end();) {
    const auto passed = next;
    next = std::partition_point(next, idle.end(),
                                [&](const Extent* extent) { return extent->bytes > missing; });
    for (auto at = next; at != passed; --at) {
      if (is_in_view(*std::prev(at))) continue;
      larger = *std::prev(at);
      break;
    }
    if (next == idle.end()) break;
    Extent* extent = *next++;
    if (is_in_view(extent)) continue;
    plan.pieces.push_back(extent);
    missing -= extent->bytes;
  }
  const size_t max_overshoot = ExtentSizing::max_overshoot_bytes(request.bytes);
  if (missing > 0 && larger != nullptr && larger->bytes - missing <= max_overshoot) {
    plan.pieces.push_back(larger);
    missing = 0;
  }
  plan.new_bytes = round_up(missing, sizing_.growth_step_bytes(request.is_small));
  return plan;
}

double Planner::cost_of(const PlanRequest& request, const Plan& plan) const {
  const auto created = static_cast<double>(sizing_.extent_count(request.growth(), plan.new_bytes));
  const double us =
      kMapUs * (static_cast<double>(plan.pieces.size()) + created) + kCreateUs * created;
  return static_cast<double>(plan.new_bytes) + us * kByteCostPerDriverUs;
}

// New memory that needs no particular place goes to the end of the largest view of its stream that
// has enough addresses left. Memory obtained in small amounts is then contiguous, and once free it
// serves blocks of any size without stitching.
void Planner::place_new_memory(const PlanRequest& request, Plan& plan) const {
  if (plan.view != nullptr || plan.new_bytes == 0) return;
  const size_t growth =
      std::max(sizing_.max_growth_bytes(request.bytes, request.is_small), plan.new_bytes);
  for (View* each : request.pool.candidates.views()) {
    View& view = *each;
    const bool is_candidate = !view.is_plain && !view.retirement.is_whole &&
                              view.arena == &request.arena && view.is_small == request.is_small;
    const bool has_addresses = view.mapped_bytes + growth <= view.reserved.bytes;
    const bool is_larger = plan.view == nullptr || view.mapped_bytes > plan.view->mapped_bytes;
    if (!is_candidate || !has_addresses || !is_larger) continue;
    const bool has_piece =
        std::any_of(plan.pieces.begin(), plan.pieces.end(),
                    [&](const Extent* piece) { return piece->is_mapped_in(&view); });
    if (!has_piece) plan.view = &view;
  }
  if (plan.view != nullptr) plan.offset = plan.view->mapped_bytes;
}

}  // namespace ashlar::paged
