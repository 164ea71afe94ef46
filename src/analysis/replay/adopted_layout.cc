// SPDX-License-Identifier: Apache-2.0
//
// Groups the mapped ranges by pool, stream and size class.
#include "analysis/replay/adopted_layout.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "analysis/recorded_size_policy.h"

namespace ashlar {

size_t used_count(const SnapshotSegment& segment) {
  return static_cast<size_t>(std::count_if(
      segment.blocks.begin(), segment.blocks.end(),
      [](const auto& block) { return block.state != SnapshotBlockState::kInactive; }));
}

std::vector<SnapshotSegment> plain_segments_of(const Layout& layout) {
  std::vector<SnapshotSegment> plain;
  for (const SnapshotSegment& segment : layout.segments) {
    if (!segment.is_expandable) plain.push_back(segment);
  }
  return plain;
}

std::vector<ExpandablePart> expandable_parts_of(const Layout& layout,
                                                const std::vector<TraceEntry>& trace) {
  using Key = std::tuple<PoolId, StreamId, bool>;
  std::map<Key, DeviceAddress> begins;
  const auto add = [&](const Key& key, DeviceAddress at) {
    const auto [place, is_new] = begins.try_emplace(key, at);
    if (!is_new) place->second = std::min(place->second, at);
  };
  std::vector<ExpandablePart> parts;
  const uint32_t* next = layout.allocations.data();
  for (const SnapshotSegment& segment : layout.segments) {
    const size_t count = used_count(segment);
    if (segment.is_expandable) {
      parts.push_back({.segment = &segment, .begin = {}, .allocations = {next, count}});
      add({segment.pool, segment.stream, segment.is_large}, segment.address);
    }
    next += count;
  }
  if (parts.empty()) return parts;
  for (const TraceEntry& entry : trace) {
    const bool is_mapped = entry.action == TraceAction::kSegmentMap;
    if (is_mapped) add({entry.pool, entry.stream, is_large_segment(entry.bytes)}, entry.address);
  }
  for (ExpandablePart& part : parts) {
    part.begin = begins.at({part.segment->pool, part.segment->stream, part.segment->is_large});
  }
  return parts;
}

}  // namespace ashlar
