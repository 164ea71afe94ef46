// SPDX-License-Identifier: Apache-2.0
//
// Follows the recorded events until the first difference.
#include "analysis/replay/replayed_segments.h"

namespace ashlar {
namespace {

constexpr size_t kGranularityBytes = size_t{2} << 20;  // of segments that are not expandable

}  // namespace

ReplayedSegments::ReplayedSegments(const std::vector<TraceEntry>& trace,
                                   const std::vector<SnapshotSegment>& initial)
    : recorded_(segment_events_of(trace)), addresses_(trace, initial) {}

void ReplayedSegments::finish_request() {
  if (!expected_.empty()) follows_recording_ = false;  // the replay needed fewer segments
  expected_.clear();
}

DeviceAddress ReplayedSegments::choose_address(size_t bytes) {
  const DeviceAddress predicted(addresses_.allocate(bytes));
  const bool is_recorded = follows_recording_ && !expected_.empty() &&
                           expected_.front()->bytes <= bytes &&
                           bytes - expected_.front()->bytes < kGranularityBytes;
  if (!is_recorded) return predicted;
  const DeviceAddress recorded = expected_.front()->address;
  expected_.erase(expected_.begin());
  if (recorded != predicted) addresses_.free(predicted.value());
  return recorded;
}

void ReplayedSegments::add(const TraceEntry& event, StreamId stream, uint64_t alloc_count) {
  if (event.action == TraceAction::kSegmentFree) addresses_.free(event.address.value());
  const size_t index = replayed_.size();
  replayed_.push_back({event.action, event.bytes, stream, alloc_count});
  follows_recording_ =
      follows_recording_ && index < recorded_.size() && recorded_[index] == replayed_.back();
}

}  // namespace ashlar
