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

// What it costs to use other streams' memory, whose work must be waited for: so much of it could
// as well become useless.
constexpr double kBorrowing = 0.25;

// How many wasteful places are taken as they are, where nothing is left to look for better ones,
// and where that is scarce.
constexpr int64_t kLongPatience = 1024;
constexpr int64_t kSomePatience = 16;
// Looking at more finds nothing better that is worth its time (docs/design/paged.md).
constexpr int64_t kEnoughVisits = 1000;
constexpr int64_t kFewVisits = 200;     // likewise, where looking is scarce
constexpr int64_t kVisitsOfPlaces = 4;  // what looking closer at both ends of a stretch takes

// How many extents all of the memory should be cut into, about.
size_t share_of(PagedPolicy policy) {
  switch (policy) {
    case PagedPolicy::kFast: return 32;
    case PagedPolicy::kBalanced: return 128;
    case PagedPolicy::kLean: return 1024;
  }
  return 128;
}

}  // namespace

Result<Block*> PagedEngine::stitch(Search& search) {
  const RelaxedCapture relaxed(device_, waiting_.capture_count());
  if (!relaxed.status().ok()) return relaxed.status();
  const std::set<const Arena*> lenders = find_lenders(search);
  search.is_ample = !can_afford_to_stitch(search);  // before arenas are locked: it looks at sums
  Plan plan;
  Claim claim;
  {
    AllArenas lock(*search.pool);
    for (const auto& [stream, arena] : search.pool->arenas) arena->flush();
    bring_back(*search.arena);
    if (search.is_ample) {
      search.arena->heap(search.is_small).patience = kLongPatience;
      PagedBlock* block = search.arena->take(search.bytes, tolerance_);
      if (block != nullptr) {
        hand_out(*search.arena, block, search.request);
        return block;
      }
      plan = plan_ample_growth(search);
    }
    if (!plan.exists) plan = best_plan(search, lenders);
    const bool is_scarce = options_.policy != PagedPolicy::kLean && search.pool->budget.is_scarce();
    if (!search.is_ample && is_scarce) search.arena->heap(search.is_small).patience = kSomePatience;
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
  charge_mapping(*search.pool, plan.pieces.size(), claim.pieces.size(), begin_ns);
  if (!ready.ok()) {
    give_up(claim);
    if (claim.view != nullptr && claim.view->slots.empty()) release_view(*claim.view);
    return ready;
  }
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
        (!arena->is_gone || arena->is_quiet) && !waiting_.is_capturing({&device_, stream});
    if (arena.get() == search.arena || !is_waitable) continue;
    if (options_.policy == PagedPolicy::kFast) {
      // Where captures go on, any stream may begin one even now, and asking would break it.
      const Result<bool> idle = waiting_.capture_count() == 0 ? device_.is_idle(stream) : false;
      if (!idle.ok() || !*idle) continue;
    }
    lenders.insert(arena.get());
  }
  return lenders;
}

Plan PagedEngine::best_plan(const Search& search, const std::set<const Arena*>& lenders) {
  mark_idle(*search.pool, lenders);
  Plan plan = plan_placement(search);
  if (!plan.exists) plan = plan_growth(search);
  search.pool->budget.spend_visits(visited_count_);
  return plan;
}

// Finds every extent that no block uses: those inside free blocks, and those without a home.
void PagedEngine::mark_idle(PagedPool& pool, const std::set<const Arena*>& lenders) {
  ++idle_round_;
  visited_count_ = static_cast<int64_t>(pool.extents.size());
  lenders_ = lenders;
  for (const auto& [stream, arena] : pool.arenas) {
    if (!lenders.contains(arena.get())) continue;
    for (Heap& heap : arena->heaps) {
      heap.ranges.visit_at_least(granule_bytes_, [&, round = idle_round_](PagedBlock* block) {
        const View& view = *block->view;
        if (view.is_plain) return true;
        const size_t begin = view.offset_of(*block);
        const size_t end = begin + block->bytes;
        for (size_t i = view.slot_at(begin); i < view.slots.size() && view.slots[i].end() <= end;
             ++i) {
          if (view.slots[i].offset < begin) continue;
          view.slots[i].extent->idle_in = block;
          view.slots[i].extent->idle_round = round;
        }
        return true;
      });
    }
  }
  for (const auto& extent : pool.extents) {
    const bool is_idle = extent->home == nullptr && !extent->is_leaving;
    if (is_idle && lenders.contains(extent->arena)) extent->idle_round = idle_round_;
  }
}

// The place in a view where the least becomes useless, and little is borrowed. Old views mostly
// have other addresses of what later ones have, too: once enough has been seen, a place that is not
// bad will do. Where looking is scarce, so will the first one of the very size.
Plan PagedEngine::plan_placement(const Search& search) {
  Plan best;
  int64_t best_cost = INT64_MAX;
  const bool must_see_all = options_.policy == PagedPolicy::kLean;
  const bool is_scarce = !must_see_all && search.pool->budget.is_scarce();
  bool is_perfect = false;
  const int64_t enough =
      must_see_all ? INT64_MAX : visited_count_ + (is_scarce ? kFewVisits : kEnoughVisits);
  for (const auto& each : search.pool->views) {
    const bool is_good = best_cost <= static_cast<int64_t>(search.bytes);
    if ((visited_count_ >= enough && is_good) || (is_scarce && is_perfect)) break;
    View& view = *each;
    if (view.is_plain || view.is_small != search.is_small) continue;
    if (view.mapped_bytes < search.bytes) continue;
    const auto consider = [&](const Run& run) ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
      const size_t run_bytes = run.end - run.begin;
      if (run_bytes < search.bytes) return;
      const auto rest = static_cast<int64_t>(run_bytes - search.bytes);
      // Nothing is better than to use only what is useless already.
      if (rest / 2 - static_cast<int64_t>(search.bytes) >= best_cost) return;
      visited_count_ += kVisitsOfPlaces;
      const AddressRange range{view.at(run.begin), run_bytes};
      const double borrowed = static_cast<double>(run.borrowed_bytes) /
                              static_cast<double>(run_bytes) * static_cast<double>(search.bytes);
      const auto waiting = static_cast<int64_t>(kBorrowing * borrowed);
      for (const size_t offset : {run.begin, run.end - search.bytes}) {
        const int64_t cost = stranded_bytes(view, range, offset, search.bytes) + rest / 2 + waiting;
        if (cost >= best_cost) continue;
        best_cost = cost;
        is_perfect = rest == 0 && cost <= 0;
        best.view = &view;
        best.from = run.first;
        best.offset = offset;
        best.exists = true;
      }
    };
    for_each_run(view, search, consider);
  }
  if (!best.exists) return best;
  while (best.view->offset_of(*best.from) + best.from->bytes <= best.offset) {
    best.from = best.from->next;
  }
  return best;
}

// Its addresses: a view of another stream that somebody uses stays there.
bool PagedEngine::may_use(const View& view, const Search& search) {
  if (view.arena == search.arena) return true;
  if (!lenders_.contains(view.arena)) return false;
  for (const PagedBlock* block = view.first; block != nullptr; block = block->next) {
    ++visited_count_;
    if (block->is_active()) return false;
  }
  return true;
}

// Its memory is elsewhere, and could come back.
bool PagedEngine::may_return(const Slot& slot) const {
  return slot.extent != nullptr && slot.is_open && !slot.is_retired() && is_idle(*slot.extent);
}

// Stretches of a view whose memory is free there, or idle elsewhere and could come back; none too
// short at its end: most views are not much longer than the block they were made for. Visitors
// run under our lock, which the analysis of locks cannot see.
template <typename Visit>
void PagedEngine::for_each_run(const View& view, const Search& search, const Visit& visit) {
  if (!may_use(view, search)) return;
  Run run;
  const auto end_run = [&](size_t end) {
    run.end = end;
    if (run.first != nullptr) visit(run);
    run = {};
  };
  for (PagedBlock* block = view.first; block != nullptr; block = block->next) {
    ++visited_count_;
    const size_t block_begin = view.offset_of(*block);
    const bool is_usable =
        !block->is_active() && (!block->is_away() || may_return(view.slot_of(*block)));
    if (!is_usable) {
      end_run(block_begin);
      if (view.mapped_bytes - block_begin - block->bytes < search.bytes) return;
      continue;
    }
    if (run.first == nullptr) run = {block, block_begin};
    const Arena* owner = block->is_away() ? view.slot_of(*block).extent->arena : view.arena;
    if (owner != search.arena) run.borrowed_bytes += block->bytes;
  }
  end_run(view.mapped_bytes);
}

// The same for the stretch at the end, which is empty where that is in use.
Tail PagedEngine::find_tail(const View& view, const Search& search) {
  Tail tail{nullptr, view.mapped_bytes};
  if (!may_use(view, search)) return tail;
  for (PagedBlock* block = view.last; block != nullptr && !block->is_active();
       block = block->previous) {
    ++visited_count_;
    if (block->is_away() && !may_return(view.slot_of(*block))) break;
    tail = {block, view.offset_of(*block)};
  }
  return tail;
}

// A new view, or more behind the end of one: whatever takes the least new memory, then the fewest
// driver calls.
Plan PagedEngine::plan_growth(const Search& search) {
  std::vector<Extent*> idle;
  for (const auto& extent : search.pool->extents) {
    const bool fits = is_shareable() ? extent->bytes == shared_extent_bytes(search.is_small)
                                     : !search.is_small || extent->bytes <= small_extent_bytes();
    if (is_idle(*extent) && fits && !search.pool->options.never_remap) {
      idle.push_back(extent.get());
    }
  }
  std::sort(idle.begin(), idle.end(), [](const Extent* a, const Extent* b) {
    if (a->bytes != b->bytes) return a->bytes > b->bytes;
    return a->mappings.size() != b->mappings.size() ? a->mappings.size() < b->mappings.size()
                                                    : a->position < b->position;
  });
  size_t idle_bytes = 0;
  for (const Extent* extent : idle) idle_bytes += extent->bytes;
  // Of a plan that has so much to map: with the largest extents, and no new memory as far as idle
  // memory reaches.
  const auto least_cost = [&](size_t missing) {
    if (missing > idle_bytes) return static_cast<double>(missing - idle_bytes);
    return kMapUs * kBytesPerUs * static_cast<double>(missing) /
           static_cast<double>(idle.front()->bytes);
  };
  Plan best = pieces_for(search, nullptr, 0, idle);
  double best_cost = cost_of(search, best);
  for (const auto& each : search.pool->views) {
    View& view = *each;
    if (view.is_plain || view.is_small != search.is_small) continue;
    const Tail tail = find_tail(view, search);
    const size_t have_bytes = view.mapped_bytes - tail.begin;
    const bool has_room = tail.begin + grown_bytes(search) <= view.reserved.bytes;
    if (have_bytes == 0 || have_bytes >= search.bytes || !has_room) continue;
    if (least_cost(search.bytes - have_bytes) >= best_cost) continue;
    Plan plan = pieces_for(search, &view, have_bytes, idle);
    plan.from = tail.first;
    plan.offset = tail.begin;
    const double cost = cost_of(search, plan);
    if (cost >= best_cost) continue;
    best = std::move(plan);
    best_cost = cost;
  }
  return best;
}

// The largest ones first, as long as they fit; then the smallest that covers the rest, unless that
// would waste too much of it.
Plan PagedEngine::pieces_for(const Search& search, View* view, size_t have_bytes,
                             const std::vector<Extent*>& idle) {
  Plan plan;
  plan.view = view;
  plan.exists = true;
  size_t missing = search.bytes - have_bytes;
  ++mapped_round_;
  for (size_t i = 0; view != nullptr && i < view->slots.size(); ++i) {
    if (Extent* extent = view->slots[i].extent; extent != nullptr) {
      extent->mapped_round = mapped_round_;
    }
  }
  std::vector<Extent*> larger;  // than what was missing when it was their turn
  for (Extent* extent : idle) {
    if (extent->mapped_round == mapped_round_) continue;  // it is there already
    if (extent->bytes > missing) {
      larger.push_back(extent);
      continue;
    }
    plan.pieces.push_back(extent);
    missing -= extent->bytes;
    if (missing == 0) break;
  }
  if (missing > 0 && !larger.empty()) {
    Extent* smallest = larger.back();
    if (smallest->bytes - missing <= spare_bytes(search)) {
      plan.pieces.push_back(smallest);
      missing = 0;
    }
  }
  plan.fresh_bytes = align_up_to(missing, growth_step_bytes(search));
  return plan;
}

double PagedEngine::cost_of(const Search& search, const Plan& plan) const {
  const auto fresh = static_cast<double>(fresh_sizes(search, plan.fresh_bytes).size());
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
std::vector<size_t> PagedEngine::fresh_sizes(const Search& search, size_t bytes) const {
  if (is_shareable() || search.is_small) {
    const size_t each =
        is_shareable() ? shared_extent_bytes(search.is_small) : small_extent_bytes();
    return std::vector<size_t>(bytes / each, each);
  }
  constexpr size_t kLargest = 64 * kMiB;
  const size_t share = (held_bytes_ + search.bytes) / share_of(options_.policy);
  const size_t each =
      align_up_to(std::clamp(share, small_extent_bytes(), kLargest), granule_bytes_);
  std::vector<size_t> sizes;
  while (bytes > 0) {
    // A rest that is not worth a call of its own joins the last one.
    const size_t next = bytes < each + each / 2 ? bytes : each;
    sizes.push_back(next);
    bytes -= next;
  }
  return sizes;
}

}  // namespace ashlar::paged
