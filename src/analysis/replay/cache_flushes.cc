// SPDX-License-Identifier: Apache-2.0
//
// An allocation that runs out of memory frees segments and then allocates one, or fails. The entry
// that follows the frees, and the memory limit, distinguish such a flush from an explicit flush.
#include "analysis/replay/cache_flushes.h"

#include "analysis/timeline.h"

namespace ashlar {
namespace {

bool is_segment_free(TraceAction action) {
  return action == TraceAction::kSegmentFree || action == TraceAction::kSegmentUnmap;
}

bool is_segment_alloc(TraceAction action) {
  return action == TraceAction::kSegmentAlloc || action == TraceAction::kSegmentMap;
}

}  // namespace

std::vector<CacheFlush> find_cache_flushes(const std::vector<TraceEntry>& trace,
                                           const FlushContext& context) {
  // The paged engine also unmaps memory without a flush. Its trace does not distinguish flushes
  // from other unmaps, so no flushes are returned.
  if (context.recorded->engine == EngineKind::kPaged) return {};
  const bool collects_by_age = context.recorded->garbage_collection_threshold > 0;
  std::vector<CacheFlush> flushes;
  size_t held_bytes = context.initial_reserved_bytes;
  for (uint32_t i = 0; i < trace.size(); ++i) {
    const size_t reserved_before = held_bytes;
    held_bytes += reserved_delta(trace[i]);
    if (!is_segment_free(trace[i].action)) continue;
    CacheFlush flush{i, i + 1, false};
    while (flush.end < trace.size() && is_segment_free(trace[flush.end].action)) {
      held_bytes += reserved_delta(trace[flush.end++]);
    }
    const TraceEntry* next = flush.end < trace.size() ? &trace[flush.end] : nullptr;
    const bool ended_in_oom = next != nullptr && next->action == TraceAction::kOom;
    const bool grew = next != nullptr && is_segment_alloc(next->action);
    const bool was_at_limit = grew && reserved_before + next->bytes > context.limit_bytes;
    flush.is_explicit = !ended_in_oom && !was_at_limit && !(grew && collects_by_age);
    flushes.push_back(flush);
    i = flush.end - 1;
  }
  return flushes;
}

}  // namespace ashlar
