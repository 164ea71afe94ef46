// SPDX-License-Identifier: Apache-2.0
//
// Replays the trace backwards from the final segments, whose pools are known.
#include "analysis/infer_pools.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "analysis/recorded_size_policy.h"

namespace ashlar {
namespace {

// A segment at the current position of the backward pass.
struct PastSegment {
  size_t bytes = 0;
  PoolId pool{};
  bool is_expandable = false;  // its memory may be unmapped while its addresses remain
  int64_t live_count = 0;      // allocations, including pending frees

  // Whether emptying the cache would free the segment. Expandable segments are unmapped instead.
  bool is_cached() const { return pool.is_default() && !is_expandable && live_count == 0; }
};

class PoolInference {
 public:
  PoolInference(const std::vector<SnapshotSegment>& segments, DeviceIndex device,
                std::vector<TraceEntry>& trace);
  void run();

 private:
  void undo(TraceEntry& entry);
  size_t undo_segment_frees(size_t end);
  bool releases_pool(size_t end) const;
  PastSegment* segment_at(DeviceAddress address);
  void add(DeviceAddress address, const PastSegment& segment);
  void remove(DeviceAddress address);
  void change_live(PastSegment& segment, int64_t difference);

  std::vector<TraceEntry>& trace_;
  std::map<uint64_t, PastSegment> segments_;  // keyed by address
  size_t cached_count_ = 0;                   // segments with is_cached(), counted incrementally
  uint64_t inferred_count_ = 0;               // pools inferred so far
};

PoolInference::PoolInference(const std::vector<SnapshotSegment>& segments, DeviceIndex device,
                             std::vector<TraceEntry>& trace)
    : trace_(trace) {
  for (const SnapshotSegment& segment : segments) {
    if (segment.device != device) continue;
    const auto live_count = std::count_if(
        segment.blocks.begin(), segment.blocks.end(),
        [](const SnapshotBlock& block) { return block.state != SnapshotBlockState::kInactive; });
    add(segment.address, {segment.total_bytes, segment.pool, segment.is_expandable, live_count});
  }
}

void PoolInference::run() {
  for (size_t end = trace_.size(); end > 0;) {
    if (trace_[end - 1].action == TraceAction::kSegmentFree) {
      end = undo_segment_frees(end);
    } else {
      undo(trace_[--end]);
    }
  }
}

void set_pool(TraceEntry& entry, PoolId pool) {
  if (entry.has_pool) return;
  entry.pool = pool;
  entry.has_pool = true;
}

void PoolInference::undo(TraceEntry& entry) {
  PastSegment* segment = segment_at(entry.address);
  if (segment == nullptr) return;
  switch (entry.action) {
    case TraceAction::kAlloc: change_live(*segment, -1); break;
    case TraceAction::kFreeCompleted: change_live(*segment, 1); break;
    case TraceAction::kFreeRequested:
    case TraceAction::kSegmentAlloc:
    case TraceAction::kSegmentMap:
    case TraceAction::kSegmentUnmap: break;
    default: return;
  }
  set_pool(entry, segment->pool);
  const bool begins = entry.action == TraceAction::kSegmentAlloc && !segment->is_expandable;
  if (begins) remove(entry.address);
}

// Undoes a run of consecutive segment frees that ends at `end`, and returns its first entry. A pool
// frees its small segments before its large ones, each in the order of stream, size and address, so
// a break in that order means that another pool was released.
size_t PoolInference::undo_segment_frees(size_t end) {
  const auto order = [](const TraceEntry& entry) {
    return std::tuple(is_large_segment(entry.bytes), entry.stream, entry.bytes, entry.address);
  };
  const bool is_pool = releases_pool(end);
  if (is_pool) ++inferred_count_;
  size_t begin = end;
  while (begin > 0 && trace_[begin - 1].action == TraceAction::kSegmentFree) {
    TraceEntry& entry = trace_[--begin];
    const bool starts_new_pool = begin + 1 < end && order(trace_[begin + 1]) < order(entry);
    if (is_pool && starts_new_pool) ++inferred_count_;
    if (is_pool) set_pool(entry, {UINT64_MAX, inferred_count_});
    add(entry.address, {entry.bytes, entry.pool, false, 0});
  }
  return begin;
}

bool PoolInference::releases_pool(size_t end) const {
  if (end < trace_.size()) {
    switch (trace_[end].action) {
      case TraceAction::kSegmentAlloc:
      case TraceAction::kSegmentMap:
      case TraceAction::kSegmentUnmap:
      case TraceAction::kOom: return false;
      default: break;
    }
  }
  return cached_count_ > 0;
}

PastSegment* PoolInference::segment_at(DeviceAddress address) {
  const auto after = segments_.upper_bound(address.value());
  if (after == segments_.begin()) return nullptr;
  const auto found = std::prev(after);
  return address.value() - found->first < found->second.bytes ? &found->second : nullptr;
}

void PoolInference::add(DeviceAddress address, const PastSegment& segment) {
  remove(address);
  segments_[address.value()] = segment;
  if (segment.is_cached()) ++cached_count_;
}

void PoolInference::remove(DeviceAddress address) {
  const auto found = segments_.find(address.value());
  if (found == segments_.end()) return;
  if (found->second.is_cached()) --cached_count_;
  segments_.erase(found);
}

void PoolInference::change_live(PastSegment& segment, int64_t difference) {
  if (segment.is_cached()) --cached_count_;
  segment.live_count += difference;
  if (segment.is_cached()) ++cached_count_;
}

}  // namespace

void infer_pools(Snapshot& snapshot, DeviceIndex device) {
  if (device.value() >= snapshot.device_traces.size()) return;
  std::vector<TraceEntry>& trace = snapshot.device_traces[device.value()];
  const bool has_all_pools = std::all_of(trace.begin(), trace.end(),
                                         [](const TraceEntry& entry) { return entry.has_pool; });
  const bool has_pools =
      std::any_of(snapshot.segments.begin(), snapshot.segments.end(),
                  [](const SnapshotSegment& segment) { return !segment.pool.is_default(); });
  const bool has_frees = std::any_of(trace.begin(), trace.end(), [](const TraceEntry& entry) {
    return entry.action == TraceAction::kSegmentFree;
  });
  if (has_all_pools || (!has_pools && !has_frees)) return;
  PoolInference(snapshot.segments, device, trace).run();
}

}  // namespace ashlar
