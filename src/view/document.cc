// SPDX-License-Identifier: Apache-2.0
//
// Builds the indexes in a constant number of linear passes over the trace.
#include "view/document.h"

#include <algorithm>
#include <limits>

#include "analysis/recorded_size_policy.h"
#include "analysis/timeline.h"
#include "analysis/training/training_analysis.h"

namespace ashlar::view {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 48;  // larger sizes in a file are implausible

std::unique_ptr<const std::vector<TraceEntry>> make_placeholder(const DeviceRecording& recording) {
  if (recording.has_history()) return nullptr;
  TraceEntry only;
  only.action = TraceAction::kSnapshot;
  only.has_time = false;
  only.device = recording.device();
  return std::make_unique<const std::vector<TraceEntry>>(1, only);
}

// Appends the key to `all`, unless `indexes` already has it.
template <typename Key>
void add_unique(Key key, std::vector<Key>& all, std::map<Key, uint32_t>& indexes) {
  if (indexes.try_emplace(key, static_cast<uint32_t>(all.size())).second) all.push_back(key);
}

}  // namespace

Document::Document(std::shared_ptr<const Recording> recording, DeviceIndex device)
    : recording_(std::move(recording), device),
      categories_(&training_of(recording_).categories),
      placeholder_(make_placeholder(recording_)),
      trace_(placeholder_ ? placeholder_.get() : &recording_.trace()),
      segments_(recording_.snapshot(), device, *trace_) {
  rank_by_age();
  number_streams_and_pools();
  compute_sums();
  compute_reserved();
  rank_groups();
}

void Document::rank_by_age() {
  const std::vector<Allocation>& all = allocations().all;
  ids_.reserve(all.size());
  for (uint32_t id = 0; id < all.size(); ++id) {
    if (all[id].predates_trace()) ids_.push_back(id);
  }
  for (uint32_t id = 0; id < all.size(); ++id) {
    if (!all[id].predates_trace()) ids_.push_back(id);
  }
  std::vector<EntryInterval> intervals;
  intervals.reserve(all.size());
  bytes_.reserve(all.size());
  for (const uint32_t id : ids_) {
    static_assert(Allocation::kNoEntry == kNever);
    const uint32_t begin = all[id].predates_trace() ? 0 : all[id].alloc_entry;
    intervals.push_back({.begin = begin, .end = all[id].completed_entry});
    bytes_.push_back(all[id].bytes);
  }
  intervals_ = IntervalIndex(std::move(intervals), entry_count());
}

void Document::number_streams_and_pools() {
  add_unique(StreamId(), streams_, stream_indexes_);
  add_unique(PoolId(), pools_, pool_indexes_);
  for (const Allocation& allocation : allocations().all) {
    add_unique(allocation.stream, streams_, stream_indexes_);
    add_unique(allocation.pool, pools_, pool_indexes_);
  }
  for (const SegmentPiece& piece : segments_.all()) {
    add_unique(piece.stream, streams_, stream_indexes_);
    add_unique(piece.pool, pools_, pool_indexes_);
  }
  for (const SnapshotExtent& extent : recording_.snapshot().extents) {
    if (extent.device != device()) continue;
    add_unique(extent.stream, streams_, stream_indexes_);
    add_unique(extent.pool, pools_, pool_indexes_);
  }
}

uint64_t Document::block_bytes(uint64_t requested_bytes) const {
  return RecordedSizePolicy(recording_.options()).block_bytes(std::min(requested_bytes, kMaxBytes));
}

// Collects the changes by entry, then sums them up. Sums may wrap for inconsistent files.
void Document::compute_sums() {
  const RecordedSizePolicy sizes(recording_.options());
  std::vector<uint64_t> requested(entry_count());
  allocated_.resize(entry_count());
  const std::vector<EntryInterval>& intervals = intervals_.all();
  for (size_t rank = 0; rank < intervals.size(); ++rank) {
    const uint64_t wanted = bytes_[rank];
    const uint64_t got = wanted == 0 ? 0 : sizes.block_bytes(std::min(wanted, kMaxBytes));
    requested[intervals[rank].begin] += wanted;
    allocated_[intervals[rank].begin] += got;
    if (intervals[rank].end >= entry_count()) continue;
    requested[intervals[rank].end] -= wanted;
    allocated_[intervals[rank].end] -= got;
  }
  for (uint32_t entry = 1; entry < entry_count(); ++entry) {
    requested[entry] += requested[entry - 1];
    allocated_[entry] += allocated_[entry - 1];
  }
  requested_ = TimeSeries(std::move(requested));
  for (uint32_t entry = 1; entry < entry_count(); ++entry) {
    if (requested_.at(entry) > requested_.at(peak_)) peak_ = entry;
  }
}

void Document::compute_reserved() {
  const uint64_t before = initial_reserved_bytes(recording_.snapshot(), device());
  uint64_t now = before;
  for (uint32_t entry = 0; entry < entry_count(); ++entry) {
    const uint64_t change = reserved_delta((*trace_)[entry]);
    now += change;
    if (entry == 0 || change != 0) reserved_.push_back({.entry = entry, .bytes = now});
  }
  reserved_peak_ = recording_.timeline().reserved_peak.entry.value_or(0);
}

void Document::rank_groups() {
  const GroupRanking::Members members{.intervals = intervals_,
                                      .bytes = bytes_,
                                      .entry_count = entry_count(),
                                      .peak = reserved_peak_};
  std::vector<uint32_t> group_of(ids_.size());
  const auto by = [&](auto key) {
    for (uint32_t rank = 0; rank < group_of.size(); ++rank) group_of[rank] = key(allocation(rank));
    return GroupRanking(members, group_of);
  };
  groups_[0] = by([this](const Allocation& each) { return stack_of(each); });
  groups_[1] = by([this](const Allocation& each) { return stream_of(each.stream); });
  groups_[2] = by([this](const Allocation& each) { return pool_of(each.pool); });
  for (uint32_t rank = 0; rank < group_of.size(); ++rank) group_of[rank] = category_of(ids_[rank]);
  groups_[3] = GroupRanking(members, group_of);
}

uint32_t Document::stack_of(const Allocation& allocation) const {
  return stack_number(recording().stack_numbers(), allocation);
}

bool Document::has_phases() const {
  const std::vector<PhaseSpan>& phases = training_of(recording_).iterations.phases;
  return std::any_of(phases.begin(), phases.end(),
                     [](const PhaseSpan& span) { return span.phase != Phase::kOther; });
}

std::vector<Document::ReservedStep>::const_iterator Document::reserved_step(uint32_t moment) const {
  const auto after =
      std::partition_point(reserved_.begin(), reserved_.end(),
                           [moment](const ReservedStep& step) { return step.entry <= moment; });
  return std::prev(after);
}

uint64_t Document::reserved_at(uint32_t moment) const { return reserved_step(moment)->bytes; }

uint64_t Document::max_reserved(EntryRange range) const {
  auto step = reserved_step(range.begin);
  uint64_t most = step->bytes;
  while (++step != reserved_.end() && step->entry < range.end) most = std::max(most, step->bytes);
  return most;
}

double Document::time_us(uint32_t entry) const {
  if (entry >= entry_count() || !(*trace_)[entry].has_time) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return static_cast<double>((*trace_)[entry].time_us);
}

std::vector<TimePoint> Document::times(size_t max_count) const {
  std::vector<TimePoint> points;
  for (uint32_t entry = 0; entry < entry_count(); ++entry) {
    if (!(*trace_)[entry].has_time) continue;
    const double time = time_us(entry);
    points.push_back({entry, points.empty() ? time : std::max(time, points.back().time_us)});
  }
  if (points.size() < 2) return {};
  return thin_out(points, max_count);
}

}  // namespace ashlar::view
