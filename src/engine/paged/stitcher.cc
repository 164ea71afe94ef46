// SPDX-License-Identifier: Apache-2.0
//
// Executes plans, and charges their cost to the budget. The file is long because every step of a
// placement stands beside the step that undoes it.
#include "engine/paged/stitcher.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/align.h"
#include "base/host_memory.h"
#include "base/units.h"
#include "device/relaxed_capture.h"

namespace ashlar::paged {
namespace {

// Measurements behind the constants: docs/internals/experiments/paged_engine.md.

// The number of wasteful ranges that an arena accepts before the next plan. With anything from 0 to
// 1,000, ten recorded runs reserved 1.026 to 1.029 times their peak of live bytes, without a trend.
// A training run with random sequence lengths made 21,000 plans with 0 and 2,200 with 16.
constexpr int64_t kWastefulFits = 16;
// The number of wasteful ranges that an arena accepts while the budget is used up. With 16 instead
// of 1,024, llm_generate_long reserved 0.26 % more memory (section "Ablation").
constexpr int64_t kWastefulFitsOverBudget = 1024;

// The visits charged for each merged block, because a block has to be split again for the next
// request of the merged block's size. Without this charge, and with eight instead of two packed
// slots per visit (kPackedPerVisit), churn with 100 live blocks took 170 to 230 ns per step instead
// of 110 ns.
constexpr int64_t kVisitsPerMerge = 12;

// Ratios of held memory to peak live memory. Above urgent_ratio, saving is urgent: with 1.25
// instead of 1.04, a program that exceeds its budget reserved a quarter more memory. Above
// kUnlimitedRatio, the cost of saving is ignored; no recorded run comes near that ratio. With 1.25
// or 2 instead of 1.5, and with 1.5 or 3 instead of 2, the recorded runs reserve the same amount of
// memory (section "Sensitivity of constants").
double urgent_ratio(PagedPolicy policy) { return policy == PagedPolicy::kFast ? 1.5 : 1.04; }
constexpr double kUnlimitedRatio = 2;

// The saved fraction is computed as if at least this much memory were held, so that small programs
// get little credit. Halving or doubling it changes no recorded run by more than 0.2 %.
constexpr double kMinCreditBaseBytes = double(kGiB);

// The fraction of the mapping time that is charged if the stream has queued work or waits for the
// work of a lender, because the device stays busy in the meantime. With the full charge, a network
// with 48 input resolutions reserved 1.11 to 1.16 times its peak of live bytes on an H200; with a
// quarter, 1.04 times.
constexpr double kHiddenMappingCost = 0.25;

// A large request over budget takes at least 1/64 of the held memory. With 1/32 or 1/128, no
// recorded run changes by more than 0.5 %.
constexpr size_t kOverBudgetDivisor = 64;

// Bound on the measured time that is charged, as a multiple of the usual cost. Not tuned by
// measurement: replays always take the usual time.
constexpr double kMaxCostFactor = 10;

void remove_duplicates(std::vector<Arena*>& arenas) {
  std::sort(arenas.begin(), arenas.end(),
            [](const Arena* a, const Arena* b) { return a->serial < b->serial; });
  arenas.erase(std::unique(arenas.begin(), arenas.end()), arenas.end());
}

}  // namespace

PlanRequest Stitcher::plan_request(const SlowPathRequest& request) const {
  return {*request.pool, *request.arena, request.block_bytes, request.is_small,
          extents_.held_bytes()};
}

Result<Block*> Stitcher::allocate(SlowPathRequest& request) {
  const RelaxedCapture relaxed(config_.device, streams_.capture_count());
  if (!relaxed.status().ok()) return relaxed.status();
  Arena& arena = *request.arena;
  arena.mark_stream_alive();
  PlanCandidates& candidates = request.pool->candidates;
  candidates.update(arena);
  visited_count_ += candidates.arenas().size() + candidates.views().size();
  choose_lenders(request);
  // Called before the arenas are locked, because PeakTracker's lock must be taken before theirs.
  request.is_over_budget = !can_afford_to_stitch(request);
  BlockReservation blocks(arena);
  Plan plan;
  Placement placement;
  {
    ArenaLocks lock(candidates.arenas());
    for (Arena* each : lock.arenas()) each->fill_reserve();
    request.pool->budget.spend_visits(kVisitsPerMerge * flush(lock.arenas()));
    mover_.return_displaced(arena);
    candidates.rest_unusable(*request.pool, arena, config_.granule_bytes);
    SubArena& sub = arena.sub_arena(request.is_small);
    if (request.is_over_budget) sub.wasteful_fits_left = kWastefulFitsOverBudget;
    // Searches again, because a wait or another thread may have freed a block since the last
    // search.
    if (PagedBlock* block = arena.take(request.block_bytes, config_.max_waste); block != nullptr) {
      Arena::mark_allocated(sub, block, request.request.bytes, request.request.stack);
      tracer_.trace_alloc(*block);
      return block;
    }
    plan = make_plan(request);
    if (!request.is_over_budget && config_.options.policy != PagedPolicy::kLean) {
      sub.wasteful_fits_left = kWastefulFits;
    }
    request.device_bytes = plan.new_bytes;
    if (plan.new_bytes > 0) {
      Status allowed = extents_.check_limit(request, plan.new_bytes);
      if (!allowed.ok()) return allowed;
    }
    placement = prepare(plan, request);
    take(plan, request, placement);
    if (plan.from == nullptr) blocks.reduce_to_new_placement();
  }
  ScopeGuard undo([&]() ASHLAR_REQUIRES(engine_lock) { roll_back(placement); });
  const int64_t begin_ns = config_.clock.now_ns();
  Status completed = complete(placement, plan.new_bytes, request);
  charge_mapping(request, plan.pieces.size(), placement.pieces.size(), begin_ns);
  if (!completed.ok()) return completed;
  undo.dismiss();
  if (!plan.pieces.empty()) peaks_.count_stitch();
  return commit(placement, request.block_bytes, request.request);
}

int64_t Stitcher::flush(std::span<Arena* const> arenas) {
  int64_t merged = 0;
  for (Arena* arena : arenas) merged += arena->flush();
  return merged;
}

// Sets Arena::is_lending of all candidates: whether the plan may use their idle memory.
void Stitcher::choose_lenders(const SlowPathRequest& request) {
  // During a capture, only the stream's own arena lends: waiting for another stream requires an
  // event, which would become part of the capture.
  const bool may_borrow =
      !request.pool->options.never_remap && !streams_.is_capturing(request.arena->stream);
  for (Arena* arena : request.pool->candidates.arenas()) {
    arena->is_lending = arena == request.arena || (may_borrow && may_lend(*arena));
  }
}

// Only streams that can be waited for lend. Under `fast`, only idle streams lend, so that no stream
// has to wait.
bool Stitcher::may_lend(const Arena& arena) {
  const bool is_waitable = (!arena.is_stream_destroyed || arena.quiescent_use_count) &&
                           !streams_.is_capturing(arena.stream);
  if (!is_waitable || config_.options.policy != PagedPolicy::kFast) return is_waitable;
  const Result<bool> idle = streams_.query_idle(arena.stream);
  return idle.ok() && *idle;
}

bool Stitcher::can_afford_to_stitch(const SlowPathRequest& request) {
  const PagedPolicy policy = config_.options.policy;
  if (request.ignores_budget || policy == PagedPolicy::kLean) return true;
  const auto live = static_cast<double>(peaks_.highest_allocated_bytes());
  const auto held = static_cast<double>(extents_.held_bytes() +
                                        request.block_bytes);  // if the whole block is new memory
  if (held > kUnlimitedRatio * live) return true;
  const bool is_urgent = held > urgent_ratio(policy) * live;
  return request.pool->budget.can_spend(
      is_urgent ? StitchBudget::Urgency::kUrgent : StitchBudget::Urgency::kNormal,
      static_cast<double>(over_budget_growth_bytes(request)) / std::max(held, kMinCreditBaseBytes),
      config_.clock.now_ns());
}

// Returns how much new memory a request over budget takes. Large requests take more than requested,
// so that fewer later requests exceed the budget.
size_t Stitcher::over_budget_growth_bytes(const SlowPathRequest& request) const {
  return request.is_small
             ? request.block_bytes
             : std::max(request.block_bytes, extents_.held_bytes() / kOverBudgetDivisor);
}

// REQUIRES: the locks of the pool's arenas.
Plan Stitcher::make_plan(const SlowPathRequest& request) {
  // Destroyed streams lend only memory that has not been used since the device was synchronized.
  for (Arena* arena : request.pool->candidates.arenas()) {
    if (!arena->is_stream_destroyed || arena->is_quiescent()) continue;
    arena->quiescent_use_count.reset();
    arena->is_lending = false;
  }
  if (request.is_over_budget) {
    const size_t new_bytes = round_up(over_budget_growth_bytes(request),
                                      config_.sizing.growth_step_bytes(request.is_small));
    if (!extents_.is_above_limit(new_bytes)) {
      return planner_.plan_new_memory(plan_request(request), new_bytes);
    }
  }
  return planner_.plan(plan_request(request));
}

// Allocates the host memory for `take`. REQUIRES: the locks of the pool's arenas.
Stitcher::Placement Stitcher::prepare(const Plan& plan, const SlowPathRequest& request) {
  Placement placement{plan.view, nullptr, plan.offset, plan.pieces, plan.pieces.size()};
  const size_t slot_count = plan.view != nullptr ? plan.view->slots.size() : 0;
  placement.lenders.reserve(slot_count + plan.pieces.size());
  const bool is_taken_over = plan.from != nullptr && plan.view->arena != request.arena;
  if (is_taken_over) {
    request.arena->fill_reserve(Arena::kBlocksPerSlot * slot_count);
    request.arena->reserve_ranges(plan.view->is_small, plan.view->mapped_bytes);
  }
  return placement;
}

// Takes the memory that the plan uses. REQUIRES: the locks of the pool's arenas have been held
// since the plan was made.
void Stitcher::take(const Plan& plan, const SlowPathRequest& request,
                    Placement& placement) noexcept {
  if (plan.from != nullptr) {
    View& view = *plan.view;
    PagedBlock* from = plan.from;
    if (view.arena != request.arena) {
      mover_.move_view(view, *request.arena);
      from = view.slots[view.slot_at(plan.offset)].detached_block;
    }
    const size_t end = std::min(plan.offset + request.block_bytes, view.mapped_bytes);
    placement.block =
        mover_.take_range(view, from, {view.at(plan.offset), end - plan.offset}, placement.lenders);
  }
  for (Extent* piece : placement.pieces) {
    if (piece->attached_view != nullptr) mover_.detach_idle(*piece);
    if (piece->arena != request.arena) placement.lenders.push_back(piece->arena);
  }
  remove_duplicates(placement.lenders);
}

Status Stitcher::complete(Placement& placement, size_t new_bytes, SlowPathRequest& request) {
  Status ordered = order_after(placement.lenders, *request.arena);
  if (!ordered.ok()) return ordered;
  if (placement.pieces.empty() && new_bytes == 0) return {};
  if (placement.view == nullptr) {
    const Result<View*> view = views_.create(request, std::max(request.block_bytes, new_bytes));
    if (!view.ok()) return view.status();
    placement.view = *view;
  }
  Status created = extents_.create(
      request, config_.sizing.extent_sizes(plan_request(request).growth(), new_bytes),
      placement.pieces);
  if (!created.ok()) return created;
  const auto created_extents = [&] {
    return std::span(placement.pieces).subspan(placement.idle_piece_count);
  };
  ScopeGuard undo([&]() ASHLAR_REQUIRES(engine_lock) {
    extents_.undo_creation(*request.pool, created_extents());
  });
  Status mapped = map_pieces(placement, request);
  if (!mapped.ok()) return mapped;
  undo.dismiss();
  extents_.count_created(created_extents());
  return {};
}

// Maps the pieces at the end of the view.
Status Stitcher::map_pieces(Placement& placement, SlowPathRequest& request) {
  const size_t begin = placement.view->mapped_bytes;
  Result<PagedBlock*> mapped = views_.map_at_end(*placement.view, placement.pieces, request);
  if (!mapped.ok()) return mapped.status();
  if (placement.block == nullptr) {
    placement.block = *mapped;
    placement.offset = begin;
  } else {
    BiasedLock lock(request.arena->lock);
    placement.block->bytes += (*mapped)->bytes;
    request.arena->remove_block(*mapped);
  }
  return {};
}

// Makes later work of the borrower wait for the lenders' work so far. No event can be recorded on a
// destroyed stream; its memory can be used only after the device has been synchronized.
Status Stitcher::order_after(const std::vector<Arena*>& lenders, const Arena& borrower) {
  for (Arena* lender : lenders) {
    Status ordered = streams_.record_order_event(lender->stream);
    if (ordered.ok()) lender->mark_stream_alive();
    if (ordered.is(StatusKind::kInvalidArgument)) {
      lender->is_stream_destroyed = true;
      if (lender->quiescent_use_count) continue;  // quiescent when its memory was taken
      return Status::out_of_memory("the idle memory belongs to a destroyed stream");
    }
    // If the lender has begun to capture, the borrower must not wait for the lender's event: such a
    // wait would make the borrower join the capture.
    if (ordered.ok() && streams_.is_capturing(lender->stream)) {
      return Status::out_of_memory("the idle memory belongs to a stream that began to capture");
    }
    if (ordered.ok()) ordered = streams_.wait_for_order_event(borrower.stream);
    if (!ordered.ok()) return ordered;
  }
  return {};
}

// Charges the usual cost of stitching, or the measured time if it was longer, because drivers
// differ. The measured time counts only up to a bound, because the host may have been preempted.
// Mapping new memory is not charged.
void Stitcher::charge_mapping(const SlowPathRequest& request, size_t stitched_count,
                              size_t all_count, int64_t begin_ns) noexcept {
  if (stitched_count == 0) return;
  const auto stitched = static_cast<double>(stitched_count);
  const double part = stitched / static_cast<double>(std::max(stitched_count, all_count));
  const double took_us = static_cast<double>(config_.clock.now_ns() - begin_ns) / 1000 * part;
  const double usual_us = kMapUs * stitched;
  const bool is_busy = catch_bad_alloc([&]() ASHLAR_REQUIRES(engine_lock) {
    const Result<bool> idle = streams_.query_idle(request.arena->stream);
    return idle.ok() && !*idle;
  });
  const double charged_part = is_busy ? kHiddenMappingCost : 1;
  request.pool->budget.spend_driver_us(charged_part *
                                       std::clamp(took_us, usual_us, kMaxCostFactor * usual_us));
}

// Allocates `bytes` bytes of the placement and frees the remainders of the placement's block on
// both sides. REQUIRES: the whole placement is mapped, and its lenders are ordered.
Block* Stitcher::commit(const Placement& placement, size_t bytes,
                        const AllocationRequest& request) noexcept {
  assign_extents(placement);
  View& view = *placement.view;
  Arena& arena = *view.arena;
  BiasedLock lock(arena.lock);
  PagedBlock* block = placement.block;
  const size_t begin = view.offset_of(*block);
  const size_t end = begin + block->bytes;
  if (placement.offset > begin) {
    PagedBlock* before = block;
    block = arena.split(block, placement.offset);
    arena.add_free(before);
  }
  if (placement.offset + bytes < end) {
    arena.add_free(arena.split(block, placement.offset + bytes));
  }
  Arena::mark_allocated(arena.sub_arena(block->is_small), block, request.bytes, request.stack);
  tracer_.trace_alloc(*block);
  return block;
}

// Assigns the extents of the placement to the arena of its view.
void Stitcher::assign_extents(const Placement& placement) noexcept {
  View& view = *placement.view;
  Arena& arena = *view.arena;
  view.last_placed_at = mover_.next_tick();
  if (view.is_plain) return;
  const size_t begin = view.offset_of(*placement.block);
  const size_t end = begin + placement.block->bytes;
  for (size_t i = view.slot_at(begin); i < view.slots.size() && view.slots[i].offset < end; ++i) {
    Extent& extent = *view.slots[i].extent;
    const AddressRange range = view.range_of(view.slots[i]);
    if (extent.traced == range && extent.arena == &arena) continue;
    peaks_.move_reserved(extent, arena, view.is_small);
    tracer_.trace_move(extent, range, arena);
    extent.arena = &arena;
    extent.is_small = view.is_small;
  }
}

// Undoes a placement: whole extents become idle and detached, and all other memory becomes free.
void Stitcher::roll_back(const Placement& placement) noexcept {
  if (placement.view == nullptr) return;
  if (placement.block != nullptr) {
    BiasedLock lock(placement.view->arena->lock);
    mover_.return_range(placement.block);
  }
  if (placement.view->slots.empty()) views_.release(*placement.view);
}

// Filling the reserves suffices: while the pool is restored, only the restore takes blocks from its
// arenas.
Stitcher::ExactScratch Stitcher::prepare_exact(const PagedPool& pool,
                                               const std::vector<ExactRange>& ranges) {
  ExactScratch scratch;
  size_t slot_count = 0;
  for (const auto& view : pool.views) slot_count += view->slots.size();
  scratch.lenders.reserve(slot_count);
  for (const ExactRange& each : ranges) {
    BiasedLock lock(each.arena.lock);
    each.arena.fill_reserve(Arena::kBlocksPerPlacement * ranges.size() +
                            Arena::kBlocksPerSlot * slot_count);
    each.arena.reserve_ranges(each.view.is_small, each.view.mapped_bytes);
  }
  return scratch;
}

Block* Stitcher::allocate_at(const ExactRange& exact, ExactScratch& scratch,
                             DeferredError& error) noexcept {
  View& view = exact.view;
  PagedPool& pool = exact.arena.pool;
  Placement placement{&view, nullptr, exact.range.begin - view.reserved.begin};
  pool.candidates.wake_all(pool.arenas);
  placement.lenders = std::move(scratch.lenders);
  placement.lenders.clear();
  {
    ArenaLocks arenas(pool);
    // If another stream has taken over the view since the checkpoint, takes it back.
    if (view.arena != &exact.arena && !view.is_plain && !view.has_active_block()) {
      mover_.move_view(view, exact.arena);
    }
    for (Arena* each : arenas.arenas()) each->is_lending = true;
    mark_idle_extents(pool, arenas.arenas(), &exact.arena, config_.granule_bytes);
    PagedBlock* from = view.first;
    while (from->end() <= exact.range.begin) from = from->next;
    placement.block = mover_.take_range(view, from, exact.range, placement.lenders);
  }
  remove_duplicates(placement.lenders);
  const bool is_ordered = catch_bad_alloc([&]() ASHLAR_REQUIRES(engine_lock) {
    return order_after(placement.lenders, *view.arena).ok();
  });
  if (!is_ordered) {
    (void)catch_bad_alloc([&]() ASHLAR_REQUIRES(engine_lock) {
      Status waited = config_.device.synchronize_device();
      if (!waited.ok()) error.record(std::move(waited));
      return true;
    });
  }
  Block* block =
      commit(placement, exact.range.bytes, {exact.requested_bytes, view.arena->stream, {}});
  scratch.lenders = std::move(placement.lenders);
  return block;
}

}  // namespace ashlar::paged
