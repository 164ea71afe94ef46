// SPDX-License-Identifier: Apache-2.0
//
// Backwards from the end, where the segments are known.
#include "analysis/infer_pools.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "analysis/recorded_sizes.h"

namespace ashlar {
namespace {

// A segment at the moment that is looked at.
struct Place {
  size_t bytes = 0;
  PoolId pool{};
  bool is_expandable = false;  // then its parts come and go, and its addresses stay
  int64_t live_count = 0;      // allocations, pending ones included

  // Emptying the cache gives it back.
  bool is_cached() const { return pool.is_default() && !is_expandable && live_count == 0; }
};

class Inference {
 public:
  Inference(const std::vector<SnapshotSegment>& segments, DeviceIndex device,
            std::vector<TraceEntry>& trace);
  void go_back();

 private:
  void undo(TraceEntry& entry);
  size_t undo_stretch(size_t end);
  bool lets_go_of_a_pool(size_t end) const;
  Place* place_at(DeviceAddress address);
  void add(DeviceAddress address, const Place& place);
  void remove(DeviceAddress address);
  void change_live(Place& place, int64_t difference);

  std::vector<TraceEntry>& trace_;
  std::map<uint64_t, Place> places_;  // by address
  size_t cached_count_ = 0;           // places that are so; kept, since a file may have many
  uint64_t inferred_count_ = 0;       // pools
};

Inference::Inference(const std::vector<SnapshotSegment>& segments, DeviceIndex device,
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

void Inference::go_back() {
  for (size_t end = trace_.size(); end > 0;) {
    if (trace_[end - 1].action == TraceAction::kSegmentFree) {
      end = undo_stretch(end);
    } else {
      undo(trace_[--end]);
    }
  }
}

void know(TraceEntry& entry, PoolId pool) {
  if (entry.has_pool) return;
  entry.pool = pool;
  entry.has_pool = true;
}

void Inference::undo(TraceEntry& entry) {
  Place* place = place_at(entry.address);
  if (place == nullptr) return;
  switch (entry.action) {
    case TraceAction::kAlloc: change_live(*place, -1); break;
    case TraceAction::kFreeCompleted: change_live(*place, 1); break;
    case TraceAction::kFreeRequested:
    case TraceAction::kSegmentAlloc:
    case TraceAction::kSegmentMap:
    case TraceAction::kSegmentUnmap: break;
    default: return;
  }
  know(entry, place->pool);
  const bool begins = entry.action == TraceAction::kSegmentAlloc && !place->is_expandable;
  if (begins) remove(entry.address);
}

// Segments that were given back one after the other, up to `end`; returns where they begin. A pool
// gives back small segments first, then by stream, size and address: where that starts anew,
// another pool was let go.
size_t Inference::undo_stretch(size_t end) {
  const auto order = [](const TraceEntry& entry) {
    return std::tuple(is_large_segment(entry.bytes), entry.stream, entry.bytes, entry.address);
  };
  const bool is_pool = lets_go_of_a_pool(end);
  if (is_pool) ++inferred_count_;
  size_t begin = end;
  while (begin > 0 && trace_[begin - 1].action == TraceAction::kSegmentFree) {
    TraceEntry& entry = trace_[--begin];
    const bool is_another = begin + 1 < end && order(trace_[begin + 1]) < order(entry);
    if (is_pool && is_another) ++inferred_count_;
    if (is_pool) know(entry, {UINT64_MAX, inferred_count_});
    add(entry.address, {entry.bytes, entry.pool, false, 0});
  }
  return begin;
}

bool Inference::lets_go_of_a_pool(size_t end) const {
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

Place* Inference::place_at(DeviceAddress address) {
  const auto after = places_.upper_bound(address.value());
  if (after == places_.begin()) return nullptr;
  const auto found = std::prev(after);
  return address.value() - found->first < found->second.bytes ? &found->second : nullptr;
}

void Inference::add(DeviceAddress address, const Place& place) {
  remove(address);
  places_[address.value()] = place;
  if (place.is_cached()) ++cached_count_;
}

void Inference::remove(DeviceAddress address) {
  const auto found = places_.find(address.value());
  if (found == places_.end()) return;
  if (found->second.is_cached()) --cached_count_;
  places_.erase(found);
}

void Inference::change_live(Place& place, int64_t difference) {
  if (place.is_cached()) --cached_count_;
  place.live_count += difference;
  if (place.is_cached()) ++cached_count_;
}

}  // namespace

void infer_pools(Snapshot& snapshot, DeviceIndex device) {
  if (device.value() >= snapshot.device_traces.size()) return;
  std::vector<TraceEntry>& trace = snapshot.device_traces[device.value()];
  const bool is_told = std::all_of(trace.begin(), trace.end(),
                                   [](const TraceEntry& entry) { return entry.has_pool; });
  const bool has_pools =
      std::any_of(snapshot.segments.begin(), snapshot.segments.end(),
                  [](const SnapshotSegment& segment) { return !segment.pool.is_default(); });
  const bool has_frees = std::any_of(trace.begin(), trace.end(), [](const TraceEntry& entry) {
    return entry.action == TraceAction::kSegmentFree;
  });
  if (is_told || (!has_pools && !has_frees)) return;
  Inference(snapshot.segments, device, trace).go_back();
}

}  // namespace ashlar
