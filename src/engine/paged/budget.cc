// Where the budget is used up, memory is taken that would not be needed; up to a bound.
#include <algorithm>

#include "base/align.h"
#include "base/units.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {
namespace {

// What is held may be so many times what was ever live, whatever the budget says.
double most_held(PagedPolicy policy) { return policy == PagedPolicy::kFast ? 1.5 : 1.25; }

}  // namespace

// With what more would be asked for.
bool PagedEngine::holds_too_much(size_t more_bytes) const {
  const double live = static_cast<double>(highest_allocated_bytes());
  return static_cast<double>(held_bytes_ + more_bytes) > most_held(options_.policy) * live;
}

// REQUIRES: the locks of the pool's arenas.
bool PagedEngine::can_afford_to_stitch(PagedPool& pool) {
  Amount risen;
  for (const auto& [stream, arena] : pool.arenas) {
    for (const Heap& heap : arena->heaps) risen.add(heap.counters.risen_in_all());
  }
  return pool.budget.is_left(clock_.now_ns(), risen.count);
}

// New memory, and for large blocks more of it than is asked for, so that this happens less and less
// often; unless the limit forbids it.
PagedEngine::Plan PagedEngine::plan_ample_growth(const Search& search) const {
  Plan plan;
  const size_t ample_bytes = search.is_small ? 0 : held_bytes_ / 64;
  plan.fresh_bytes = align_up_to(std::max(search.bytes, ample_bytes), growth_step_bytes(search));
  plan.exists = !is_above_limit(plan.fresh_bytes);
  return plan;
}

}  // namespace ashlar::paged
