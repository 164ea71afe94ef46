// SPDX-License-Identifier: Apache-2.0
//
// Block by block.
#include "analysis/gap_causes.h"

#include "engine/size_policy.h"

namespace ashlar {
namespace {

size_t& cause_of(const SnapshotSegment& segment, const Demand& demand, Causes& causes) {
  if (segment.pool != demand.pool) return causes.other_pool;
  if (segment.stream != demand.stream) return causes.other_stream;
  if (segment.is_large != demand.is_large) return causes.other_size;
  return segment.active_bytes > 0 ? causes.beside_live : causes.unused;
}

}  // namespace

Demand demand_at(const TraceEntry& entry) {
  return {
      .stream = entry.stream, .is_large = !SizePolicy::is_small(entry.bytes), .pool = entry.pool};
}

bool can_serve(const SnapshotSegment& segment, const Demand& demand) {
  return segment.pool == demand.pool && segment.stream == demand.stream &&
         segment.is_large == demand.is_large;
}

Causes explain_gap(const std::vector<SnapshotSegment>& segments, const Demand& demand) {
  Causes causes;
  for (const SnapshotSegment& segment : segments) {
    size_t& cause = cause_of(segment, demand, causes);
    for (const SnapshotBlock& block : segment.blocks) {
      if (block.state == SnapshotBlockState::kInactive) {
        cause += block.bytes;
      } else {
        causes.requested_bytes += block.requested_bytes;
        causes.rounding += block.bytes - block.requested_bytes;
      }
    }
  }
  return causes;
}

}  // namespace ashlar
