// SPDX-License-Identifier: Apache-2.0
//
// An allocation without enough memory frees segments and then allocates one, or fails. The entry
// that follows the frees, and the memory limit, distinguish this from an explicit flush.
#include "analysis/replay/cache_flushes.h"

#include "analysis/timeline.h"

namespace ashlar {
namespace {

bool gives_back(TraceAction action) {
  return action == TraceAction::kSegmentFree || action == TraceAction::kSegmentUnmap;
}

bool takes(TraceAction action) {
  return action == TraceAction::kSegmentAlloc || action == TraceAction::kSegmentMap;
}

}  // namespace

std::vector<CacheFlush> find_cache_flushes(const std::vector<TraceEntry>& trace,
                                           const FlushContext& context) {
  // The paged engine remaps memory all the time, independent of the program.
  if (context.recorded->engine == EngineKind::kPaged) return {};
  const bool collects_by_age = context.recorded->garbage_collection_threshold > 0;
  std::vector<CacheFlush> flushes;
  size_t held_bytes = context.initial_reserved_bytes;
  for (uint32_t i = 0; i < trace.size(); ++i) {
    const size_t held_before = held_bytes;
    held_bytes += reserved_delta(trace[i]);
    if (!gives_back(trace[i].action)) continue;
    CacheFlush flush{i, i + 1, false};
    while (flush.end < trace.size() && gives_back(trace[flush.end].action)) {
      held_bytes += reserved_delta(trace[flush.end++]);
    }
    const TraceEntry* next = flush.end < trace.size() ? &trace[flush.end] : nullptr;
    const bool failed_anyway = next != nullptr && next->action == TraceAction::kOom;
    const bool took_more = next != nullptr && takes(next->action);
    const bool had_no_room = took_more && held_before + next->bytes > context.limit_bytes;
    flush.is_explicit = !failed_anyway && !had_no_room && !(took_more && collects_by_age);
    flushes.push_back(flush);
    i = flush.end - 1;
  }
  return flushes;
}

}  // namespace ashlar
