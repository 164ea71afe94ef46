// What saving memory may cost: driver time, and looking for what to save. Beyond that, memory is
// taken that would not be needed, up to a bound.
#include <algorithm>

#include "base/align.h"
#include "base/units.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {
namespace {

// What stitching may cost in driver calls, and looking for what to stitch in visits to blocks: so
// much at first, and so much for each allocation, or for what it allocates. A program that spends
// more has sizes that never come again, and is better off with some memory to spare.
constexpr double kFirstUs = 50'000;
constexpr double kUsPerAllocation = 2;
constexpr int64_t kFirstVisits = 15'000'000;
constexpr int64_t kVisitsPerAllocation = 4;
constexpr int64_t kVisitsPerMiB = 8;

// But not for any amount of it: what is held may be so many times what was ever live.
double most_held(PagedPolicy policy) { return policy == PagedPolicy::kFast ? 1.5 : 1.25; }

}  // namespace

// With what more would be asked for.
bool PagedEngine::holds_too_much(size_t more_bytes) const {
  const double live = static_cast<double>(highest_allocated_bytes());
  return static_cast<double>(held_bytes_ + more_bytes) > most_held(options_.policy) * live;
}

// REQUIRES: the locks of the pool's arenas.
bool PagedEngine::can_afford_to_stitch(const PagedPool& pool) const {
  Amount risen;
  for (const auto& [stream, arena] : pool.arenas) {
    for (const Heap& heap : arena->heaps) risen.add(heap.counters.risen_in_all());
  }
  const int64_t visits = kFirstVisits + kVisitsPerAllocation * risen.count +
                         kVisitsPerMiB * (risen.bytes / static_cast<int64_t>(kMiB));
  return pool.spent_us < kFirstUs + kUsPerAllocation * static_cast<double>(risen.count) &&
         pool.spent_visits < visits;
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
