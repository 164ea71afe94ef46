// SPDX-License-Identifier: Apache-2.0
//
// An allocation that finds no room frees segments and then takes one, or fails: what follows, and
// whether there was room, tells the two apart.
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

std::vector<Flush> find_flushes(const std::vector<TraceEntry>& trace,
                                const FlushQuestion& question) {
  // It puts memory behind other addresses all the time; that tells nothing about the program.
  if (question.recorded->engine == EngineKind::kPaged) return {};
  const bool collects_by_age = question.recorded->garbage_collection_threshold > 0;
  std::vector<Flush> flushes;
  size_t held_bytes = question.start_reserved_bytes;
  for (uint32_t i = 0; i < trace.size(); ++i) {
    const size_t held_before = held_bytes;
    held_bytes += reserved_change(trace[i]);
    if (!gives_back(trace[i].action)) continue;
    Flush flush{i, i + 1, false};
    while (flush.end < trace.size() && gives_back(trace[flush.end].action)) {
      held_bytes += reserved_change(trace[flush.end++]);
    }
    const TraceEntry* next = flush.end < trace.size() ? &trace[flush.end] : nullptr;
    const bool failed_anyway = next != nullptr && next->action == TraceAction::kOom;
    const bool took_more = next != nullptr && takes(next->action);
    const bool had_no_room = took_more && held_before + next->bytes > question.limit_bytes;
    flush.asked_for = !failed_anyway && !had_no_room && !(took_more && collects_by_age);
    flushes.push_back(flush);
    i = flush.end - 1;
  }
  return flushes;
}

}  // namespace ashlar
