// SPDX-License-Identifier: Apache-2.0
//
// Attributes the bytes of every block to their causes.
#include "analysis/gap_causes.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace ashlar {
namespace {

size_t& free_bytes_cause(const SnapshotSegment& segment, const RequestClass& request,
                         GapCauses& causes) {
  if (segment.pool != request.pool) return causes.other_pool_bytes;
  if (segment.stream != request.stream) return causes.other_stream_bytes;
  if (segment.is_large != request.is_large) return causes.other_size_pool_bytes;
  return segment.active_bytes > 0 ? causes.fragmented_bytes : causes.unused_bytes;
}

}  // namespace

RequestClass dominant_request_class(const std::vector<SnapshotSegment>& segments) {
  using Key = std::tuple<PoolId, StreamId, bool>;
  std::map<Key, size_t> bytes;
  for (const SnapshotSegment& segment : segments) {
    bytes[{segment.pool, segment.stream, segment.is_large}] += segment.reserved_bytes();
  }
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == bytes.end()) return {.stream = {}, .is_large = true, .pool = {}};
  const auto& [pool, stream, is_large] = most->first;
  return {.stream = stream, .is_large = is_large, .pool = pool};
}

bool can_serve(const SnapshotSegment& segment, const RequestClass& request) {
  return segment.pool == request.pool && segment.stream == request.stream &&
         segment.is_large == request.is_large;
}

GapCauses explain_gap(const std::vector<SnapshotSegment>& segments, const RequestClass& request) {
  GapCauses causes;
  for (const SnapshotSegment& segment : segments) {
    size_t& cause = free_bytes_cause(segment, request, causes);
    for (const SnapshotBlock& block : segment.blocks) {
      if (block.state == SnapshotBlockState::kInactive) {
        cause += block.bytes;
      } else {
        causes.requested_bytes += block.requested_bytes;
        causes.rounding_bytes += block.bytes - block.requested_bytes;
      }
    }
  }
  return causes;
}

}  // namespace ashlar
