// SPDX-License-Identifier: Apache-2.0
//
// Replays the failure under the recorded settings, inspects the segments at that point, and then
// tries other settings.
#include "analysis/replay/oom.h"

#include <algorithm>

#include "analysis/gap_causes.h"
#include "analysis/recorded_size_policy.h"
#include "analysis/replay/replay.h"
#include "analysis/timeline.h"

namespace ashlar {
namespace {

constexpr size_t kMaxSegments = 5;
constexpr size_t kMaxBlocks = 3;

class OomAnalysis {
 public:
  OomAnalysis(const Snapshot& snapshot, const Allocations& allocations, const OomOptions& options);
  Result<std::optional<OomReport>> explain();

 private:
  std::optional<uint32_t> find_recorded_failure() const;
  OomLimit infer_limit() const;
  Result<bool> fails_under(size_t limit_bytes);
  void set_limit(size_t limit_bytes);
  Status find_failure();
  void describe_request();
  OomState state_of(const ReplayResult& replayed) const;
  OccupiedSegment occupied_segment(const SnapshotSegment& segment) const;
  OccupyingBlock occupying_block(const SnapshotBlock& block) const;

  const Snapshot& snapshot_;
  const std::vector<TraceEntry>& trace_;
  const Allocations& allocations_;
  const OomOptions& options_;
  const RecordedSizePolicy sizes_;
  const std::optional<uint32_t> recorded_failure_;  // entry index
  TuneOptions tuning_;                              // options_.tuning with the inferred limit
  std::optional<ReplayResult> replayed_;            // the last replay, stopped at its first failure
  OomReport report_;
  RequestClass request_class_;  // class of the failed request
};

OomAnalysis::OomAnalysis(const Snapshot& snapshot, const Allocations& allocations,
                         const OomOptions& options)
    : snapshot_(snapshot),
      trace_(snapshot.device_traces[options.tuning.device.value()]),
      allocations_(allocations),
      options_(options),
      sizes_(options.tuning.recorded),
      recorded_failure_(find_recorded_failure()),
      tuning_(options.tuning) {}

Result<std::optional<OomReport>> OomAnalysis::explain() {
  if (Status found = find_failure(); !found.ok()) return found;
  const bool has_failed = replayed_ && !replayed_->ooms.empty();
  const bool is_known = has_failed || (recorded_failure_ && !options_.is_limit_given);
  if (!is_known) return std::optional<OomReport>();
  describe_request();
  if (has_failed) report_.state = state_of(*replayed_);
  if (!report_.was_recorded) {
    const size_t reserved = report_.state ? report_.state->reserved_bytes : 0;
    report_.device_free_bytes = tuning_.capacity_bytes - std::min(tuning_.capacity_bytes, reserved);
  }
  Result<TuneResult> settings = tune(snapshot_, allocations_, tuning_);
  if (!settings.ok()) return settings.status();
  report_.settings = *std::move(settings);
  return std::optional<OomReport>(std::move(report_));
}

std::optional<uint32_t> OomAnalysis::find_recorded_failure() const {
  const auto found = std::find_if(trace_.begin(), trace_.end(), [](const TraceEntry& entry) {
    return entry.action == TraceAction::kOom;
  });
  if (found == trace_.end()) return std::nullopt;
  return static_cast<uint32_t>(found - trace_.begin());
}

// An inferred limit lies between two bounds. The lower bound is tried first, because settings that
// complete under it almost always complete under any limit in the range (see Tuner::min_capacity).
Status OomAnalysis::find_failure() {
  if (options_.is_limit_given || !recorded_failure_) {
    const size_t limit =
        std::min(tuning_.capacity_bytes, tuning_.cap_bytes.value_or(tuning_.capacity_bytes));
    report_.limit = {limit, limit, limit, !tuning_.cap_bytes};
    return fails_under(limit).status();
  }
  report_.limit = infer_limit();
  // Adds one byte, because the cap is converted to a fraction, which may round down.
  const size_t lower = report_.limit.at_least_bytes + 1;
  const Result<bool> fails = fails_under(lower);
  if (!fails.ok()) return fails.status();
  if (*fails) return {};
  const Result<bool> fails_above = fails_under(report_.limit.below_bytes - 1);
  if (!fails_above.ok() || *fails_above) return fails_above.status();
  replayed_.reset();  // the recorded failure was not reproduced
  set_limit(lower);
  return {};
}

// Sets the limit of the next replays. An inferred device limit becomes the capacity, and an
// inferred process limit becomes the cap. The two differ: as in PyTorch, expandable segments may
// exceed a cap by their rounding.
void OomAnalysis::set_limit(size_t limit_bytes) {
  report_.limit.replayed_bytes = limit_bytes;
  if (!report_.limit.is_inferred()) return;
  if (report_.limit.is_device_limit) {
    tuning_.capacity_bytes = limit_bytes;
  } else {
    tuning_.cap_bytes = limit_bytes;
  }
}

// The limit is at least the peak of reserved memory. It is less than the reserved memory plus the
// segment size at each refused request. If the device reported less free memory than the segment
// needs, the limit is the device's, and its free memory raises the lower bound.
OomLimit OomAnalysis::infer_limit() const {
  size_t held = initial_reserved_bytes(snapshot_, tuning_.device);
  OomLimit limit{held, SIZE_MAX, 0, false};
  size_t held_at_refusal = 0;
  for (const TraceEntry& entry : trace_) {
    held += reserved_delta(entry);
    limit.at_least_bytes = std::max(limit.at_least_bytes, held);
    if (entry.action != TraceAction::kOom) continue;
    const size_t rounded = std::min(entry.bytes, kRequestLimitBytes - 1);
    const size_t segment_bytes = sizes_.segment_bytes(rounded);
    if (held + segment_bytes < limit.below_bytes) {
      limit.below_bytes = held + segment_bytes;
      held_at_refusal = held;
    }
    // Oom entries store the free memory of the device in place of an address.
    const size_t device_free = entry.address.value();
    if (device_free < segment_bytes) {
      limit.at_least_bytes = std::max(limit.at_least_bytes, held + device_free);
      limit.is_device_limit = true;
    }
  }
  // If the bounds contradict each other, the limit was raised during the run, or the trace is
  // inconsistent. The lower bound is then the reserved memory at the refusal that set the upper
  // bound.
  if (limit.at_least_bytes >= limit.below_bytes) limit.at_least_bytes = held_at_refusal;
  return limit;
}

// Replays under the recorded settings until the first failure. Returns whether a failure occurred
// and is the expected one: any failure if the limit is given, the recorded failure if the limit is
// inferred.
Result<bool> OomAnalysis::fails_under(size_t limit_bytes) {
  set_limit(limit_bytes);
  ReplayOptions options;
  options.allocator = options.recorded = tuning_.recorded;
  options.device = tuning_.device;
  options.capacity_bytes = tuning_.capacity_bytes;
  options.cap_bytes = tuning_.cap_bytes;
  options.stop_at_oom = true;
  options.keep_going = tuning_.keep_going;
  Result<ReplayResult> replayed = replay(snapshot_, allocations_, options);
  if (!replayed.ok()) return replayed.status();
  replayed_ = *std::move(replayed);
  if (replayed_->ooms.empty()) return false;
  return !report_.limit.is_inferred() || replayed_->ooms.front().entry == recorded_failure_;
}

void OomAnalysis::describe_request() {
  ReplayedOom failed;
  if (replayed_) {
    failed = replayed_->ooms.front();
  } else {
    const TraceEntry& entry = trace_[*recorded_failure_];
    failed = {.entry = recorded_failure_,
              .bytes = entry.bytes,
              .was_recorded = true,
              .stream = entry.stream,
              .pool = entry.pool,
              .stack = entry.stack,
              .message = {}};
  }
  report_.entry = failed.entry;
  report_.was_recorded = failed.was_recorded;
  const size_t requested_bytes = std::min(failed.bytes, kRequestLimitBytes - 1);
  if (!failed.was_recorded) report_.requested_bytes = failed.bytes;
  report_.rounded_bytes =
      failed.was_recorded ? requested_bytes : sizes_.block_bytes(requested_bytes);
  report_.segment_bytes = sizes_.segment_bytes(report_.rounded_bytes);
  report_.stream = failed.stream;
  request_class_ = {.stream = failed.stream,
                    .is_large = !SizePolicy::is_small(report_.rounded_bytes),
                    .pool = failed.pool};
  report_.stack = failed.stack;
  if (failed.was_recorded) report_.device_free_bytes = trace_[*failed.entry].address.value();
}

bool is_free(const SnapshotBlock& block) { return block.state == SnapshotBlockState::kInactive; }

OomState OomAnalysis::state_of(const ReplayResult& replayed) const {
  OomState state;
  for (const SnapshotSegment& segment : replayed.inspected_segments) {
    state.reserved_bytes += segment.total_bytes;
    state.allocated_bytes += segment.allocated_bytes;
    OccupiedSegment occupied = occupied_segment(segment);
    state.free_bytes += occupied.free_bytes;
    state.largest_hole_bytes = std::max(state.largest_hole_bytes, occupied.largest_hole_bytes);
    if (occupied.is_usable) {
      state.usable_free_bytes += occupied.free_bytes;
      state.largest_usable_hole_bytes =
          std::max(state.largest_usable_hole_bytes, occupied.largest_hole_bytes);
    }
    if (occupied.free_bytes > 0 && occupied.live_count > 0)
      state.occupied_segments.push_back(std::move(occupied));
  }
  std::stable_sort(state.occupied_segments.begin(), state.occupied_segments.end(),
                   [](const auto& a, const auto& b) { return a.free_bytes > b.free_bytes; });
  if (state.occupied_segments.size() > kMaxSegments) state.occupied_segments.resize(kMaxSegments);
  return state;
}

OccupiedSegment OomAnalysis::occupied_segment(const SnapshotSegment& segment) const {
  OccupiedSegment occupied;
  occupied.address = segment.address;
  occupied.total_bytes = segment.total_bytes;
  occupied.stream = segment.stream;
  occupied.is_usable = can_serve(segment, request_class_);
  std::vector<const SnapshotBlock*> live;
  for (const SnapshotBlock& block : segment.blocks) {
    if (!is_free(block)) {
      live.push_back(&block);
      continue;
    }
    occupied.free_bytes += block.bytes;
    occupied.largest_hole_bytes = std::max(occupied.largest_hole_bytes, block.bytes);
  }
  occupied.live_count = live.size();
  std::stable_sort(live.begin(), live.end(),
                   [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  for (size_t i = 0; i < std::min(live.size(), kMaxBlocks); ++i) {
    occupied.largest_blocks.push_back(occupying_block(*live[i]));
  }
  return occupied;
}

OccupyingBlock OomAnalysis::occupying_block(const SnapshotBlock& block) const {
  OccupyingBlock occupying;
  occupying.address = block.address;
  occupying.bytes = block.bytes;
  occupying.requested_bytes = block.requested_bytes;
  const auto& placed = replayed_->inspected_allocations;
  const auto found = std::lower_bound(
      placed.begin(), placed.end(), block.address,
      [](const PlacedAllocation& each, DeviceAddress at) { return each.address < at; });
  if (found == placed.end() || found->address != block.address) return occupying;
  const Allocation& allocation = allocations_.all[found->allocation];
  occupying.stack = allocation.stack;
  if (allocation.predates_trace()) return occupying;
  occupying.alloc_entry = allocation.alloc_entry;
  const TraceEntry& made = trace_[allocation.alloc_entry];
  const TraceEntry& failed = trace_[*report_.entry];
  if (made.has_time && failed.has_time) {
    const uint64_t age_us =
        static_cast<uint64_t>(failed.time_us) - static_cast<uint64_t>(made.time_us);
    occupying.age_us = static_cast<int64_t>(age_us);  // may wrap for inconsistent times
  }
  return occupying;
}

}  // namespace

Result<std::optional<OomReport>> explain_oom(const Snapshot& snapshot,
                                             const Allocations& allocations,
                                             const OomOptions& options) {
  const DeviceIndex device = options.tuning.device;
  const bool exists = device.value() < snapshot.device_traces.size() &&
                      !snapshot.device_traces[device.value()].empty();
  if (!exists) return std::optional<OomReport>();
  return OomAnalysis(snapshot, allocations, options).explain();
}

}  // namespace ashlar
