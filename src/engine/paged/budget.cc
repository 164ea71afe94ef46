// SPDX-License-Identifier: Apache-2.0
//
// Where the budget is used up, memory is taken that would not be needed; up to a bound.
#include <algorithm>

#include "base/align.h"
#include "base/units.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {
namespace {

// So many times what was ever live: above the first saving is urgent, and above the second it may
// cost anything.
double much_held(PagedPolicy policy) { return policy == PagedPolicy::kFast ? 1.5 : 1.04; }
constexpr double kTooMuchHeld = 2;

// A part of less than this is a part of little, and not worth a debt.
constexpr double kLeastToOweFor = double(kGiB);

// Of the time for mapping while the stream has work to do, or waits for that of a lender: the
// device goes on, and the program hardly notices.
constexpr double kPartNoticed = 0.25;

}  // namespace

bool PagedEngine::can_afford_to_stitch(const Search& search) {
  if (search.must_save || options_.policy == PagedPolicy::kLean) return true;
  const auto live = static_cast<double>(highest_allocated_bytes());
  const auto held = static_cast<double>(held_bytes_ + search.bytes);  // if it must be new
  if (held > kTooMuchHeld * live) return true;
  const bool is_urgent = held > much_held(options_.policy) * live;
  return search.pool->budget.is_left(
      is_urgent ? Budget::Need::kUrgent : Budget::Need::kUsual,
      static_cast<double>(ample_bytes(search)) / std::max(held, kLeastToOweFor), clock_.now_ns());
}

// At the driver's usual price, or what it really took, if that was more: drivers differ. But a host
// may be held up by others meanwhile, so not for any amount. New memory is not charged.
void PagedEngine::charge_mapping(const Search& search, size_t borrowed_count, size_t all_count,
                                 int64_t begin_ns) {
  if (borrowed_count == 0) return;
  const auto borrowed = static_cast<double>(borrowed_count);
  const double part = borrowed / static_cast<double>(std::max(borrowed_count, all_count));
  const double took_us = static_cast<double>(clock_.now_ns() - begin_ns) / 1000 * part;
  const double usual_us = kMapUs * borrowed;
  const Result<bool> idle = ask_idle(search.arena->stream);  // who does not answer pays in full
  const double part_noticed = idle.ok() && !*idle ? kPartNoticed : 1;
  search.pool->budget.spend_us(part_noticed * std::clamp(took_us, usual_us, 10 * usual_us));
}

// For large blocks more than is asked for, so that this happens less and less often.
size_t PagedEngine::ample_bytes(const Search& search) const {
  return search.is_small ? search.bytes : std::max(search.bytes, held_bytes_ / 64);
}

// New memory, unless the limit forbids it.
Plan PagedEngine::plan_ample_growth(const Search& search) const {
  Plan plan;
  plan.fresh_bytes = align_up_to(ample_bytes(search), growth_step_bytes(search));
  plan.exists = !is_above_limit(plan.fresh_bytes);
  place_new_memory(search, plan);
  return plan;
}

}  // namespace ashlar::paged
