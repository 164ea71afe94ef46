// SPDX-License-Identifier: Apache-2.0
//
// Replays the run under the limit until the first failure. Takes the state at the failure from the
// recording if the recorded run failed there, otherwise from the replay. Then tries other settings.
#include "analysis/replay/oom.h"

#include <algorithm>

#include "analysis/gap_causes.h"
#include "analysis/layout.h"
#include "analysis/recorded_size_policy.h"
#include "analysis/replay/replay.h"
#include "analysis/timeline.h"

namespace ashlar {
namespace {

constexpr size_t kMaxSegments = 5;
constexpr size_t kMaxBlocks = 3;

class OomAnalysis {
 public:
  OomAnalysis(const Snapshot& snapshot, const Allocations& allocations, const TuneOptions& options);
  Result<std::optional<OomReport>> explain();

 private:
  // Segments and the allocations in them, sorted by address.
  struct Memory {
    std::vector<SnapshotSegment> segments{};
    std::vector<PlacedAllocation> placed{};
  };

  Status find_failure();
  void describe_request();
  void describe_needs();
  OomReason find_reason() const;
  Memory recorded_memory() const;
  OomState state_of(const Memory& memory) const;
  OccupiedSegment occupied_segment(const SnapshotSegment& segment, const Memory& memory) const;
  OccupyingBlock occupying_block(const SnapshotBlock& block, const Memory& memory) const;

  const Snapshot& snapshot_;
  const std::vector<TraceEntry>& trace_;
  const Allocations& allocations_;
  const TuneOptions& options_;
  const RecordedSizePolicy sizes_;
  const std::optional<uint32_t> recorded_failure_;  // entry index
  // The replay up to its first failure; unset: the replay did not reproduce the failure.
  std::optional<ReplayResult> replayed_;
  OomReport report_;
  RequestClass request_class_;  // class of the failed request
};

OomAnalysis::OomAnalysis(const Snapshot& snapshot, const Allocations& allocations,
                         const TuneOptions& options)
    : snapshot_(snapshot),
      trace_(snapshot.device_traces[options.device.value()]),
      allocations_(allocations),
      options_(options),
      sizes_(options.recorded),
      recorded_failure_(first_failure(trace_)) {}

Result<std::optional<OomReport>> OomAnalysis::explain() {
  if (Status found = find_failure(); !found.ok()) return found;
  report_.is_reproduced = replayed_.has_value();
  const bool is_known = replayed_ || (recorded_failure_ && options_.recorded_limit);
  if (!is_known) return std::optional<OomReport>();
  describe_request();
  report_.state = state_of(report_.was_recorded ? recorded_memory()
                                                : Memory{replayed_->inspected_segments,
                                                         replayed_->inspected_allocations});
  if (!report_.was_recorded) {
    report_.device_free_bytes =
        options_.capacity_bytes - std::min(options_.capacity_bytes, report_.state.reserved_bytes);
  }
  describe_needs();
  report_.reason = find_reason();
  Result<TuneResult> settings = tune(snapshot_, allocations_, options_);
  if (!settings.ok()) return settings.status();
  report_.settings = *std::move(settings);
  return std::optional<OomReport>(std::move(report_));
}

// Replays under the recorded settings until the first failure. Under an inferred limit, only the
// recorded failure is accepted.
Status OomAnalysis::find_failure() {
  report_.limit = limit_of(options_);
  ReplayOptions replaying;
  replaying.allocator = replaying.recorded = options_.recorded;
  replaying.device = options_.device;
  replaying.capacity_bytes = options_.capacity_bytes;
  replaying.cap_bytes = options_.cap_bytes;
  replaying.stop_at_oom = true;
  replaying.keep_going = options_.keep_going;
  Result<ReplayResult> replayed = replay(snapshot_, allocations_, replaying);
  if (!replayed.ok()) return replayed.status();
  const bool is_expected =
      !replayed->ooms.empty() &&
      (!options_.recorded_limit || replayed->ooms.front().entry == recorded_failure_);
  if (is_expected) replayed_ = *std::move(replayed);
  return {};
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

// Returns the memory at the recorded failure. PyTorch returns cached segments to the device before
// it records a failure, so the layout does not contain them.
OomAnalysis::Memory OomAnalysis::recorded_memory() const {
  Layout layout =
      reconstruct_layout(snapshot_, options_.device, allocations_, sizes_, recorded_failure_);
  Memory memory;
  auto next = layout.allocations.begin();
  for (const SnapshotSegment& segment : layout.segments) {
    for (const SnapshotBlock& block : segment.blocks) {
      if (!is_free(block)) memory.placed.push_back({block.address, *next++});
    }
  }
  memory.segments = std::move(layout.segments);
  return memory;
}

// Sums the requests that are in use at the failure and at the peak of the run.
void OomAnalysis::describe_needs() {
  const bool is_first = !report_.entry || *report_.entry == 0;
  const std::optional<uint32_t> before =
      is_first ? std::nullopt : std::optional(*report_.entry - 1);
  report_.live = present_at(allocations_, before);
  for (const uint32_t id : report_.live) {
    report_.live_requested_bytes += allocations_.all[id].bytes;
  }
  const Timeline timeline = make_timeline(snapshot_, options_.device, allocations_);
  // If the limit varies, the limit at another moment of the run is unknown.
  report_.needed_bytes = report_.limit.varies ? 0 : timeline.requested_peak.bytes;
  for (const FailedRequest& failed : allocations_.failed) {
    const bool is_reported = failed.entry == report_.entry;
    size_t& needed = is_reported ? report_.needed_bytes : report_.other_needed_bytes;
    needed = std::max(needed, needed_bytes(timeline, failed));
  }
  report_.failure_count =
      report_.was_recorded ? allocations_.failed.size() : replayed_->ooms.size();
}

OomReason OomAnalysis::find_reason() const {
  if (report_.excess_bytes() > 0) return OomReason::kInUse;
  const OomState& state = report_.state;
  const size_t obtainable = report_.obtainable_bytes();
  if (state.largest_usable_hole_bytes >= report_.rounded_bytes) {
    const bool may_serve = SizePolicy(options_.recorded)
                               .may_serve(state.largest_usable_hole_bytes, report_.rounded_bytes);
    return may_serve ? OomReason::kUnexplained : OomReason::kRounding;
  }
  if (obtainable >= report_.segment_bytes) return OomReason::kUnexplained;
  const size_t needed = report_.rounded_bytes - std::min(report_.rounded_bytes, obtainable);
  const bool fits_without_rounding = needed == 0;
  if (fits_without_rounding && state.usable_free_bytes < report_.rounded_bytes) {
    return OomReason::kRounding;
  }
  if (state.usable_free_bytes >= needed) return OomReason::kFragmented;
  if (state.free_bytes >= needed) return OomReason::kOtherArenas;
  const size_t used = state.reserved_bytes - state.free_bytes;
  const size_t lost = used - std::min(used, report_.live_requested_bytes);
  return lost >= needed - state.free_bytes ? OomReason::kRounding : OomReason::kInUse;
}

OomState OomAnalysis::state_of(const Memory& memory) const {
  OomState state;
  for (const SnapshotSegment& segment : memory.segments) {
    state.reserved_bytes += segment.total_bytes;
    state.allocated_bytes += segment.allocated_bytes;
    OccupiedSegment occupied = occupied_segment(segment, memory);
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

OccupiedSegment OomAnalysis::occupied_segment(const SnapshotSegment& segment,
                                              const Memory& memory) const {
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
    occupied.largest_blocks.push_back(occupying_block(*live[i], memory));
  }
  return occupied;
}

OccupyingBlock OomAnalysis::occupying_block(const SnapshotBlock& block,
                                            const Memory& memory) const {
  OccupyingBlock occupying;
  occupying.address = block.address;
  occupying.bytes = block.bytes;
  occupying.requested_bytes = block.requested_bytes;
  const auto& placed = memory.placed;
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

OomLimit limit_of(const TuneOptions& options) {
  const size_t given =
      std::min(options.capacity_bytes, options.cap_bytes.value_or(options.capacity_bytes));
  return options.recorded_limit.value_or(OomLimit{.at_least_bytes = given,
                                                  .below_bytes = given,
                                                  .replayed_bytes = given,
                                                  .is_device_limit = !options.cap_bytes});
}

Result<std::optional<OomReport>> explain_oom(const Snapshot& snapshot,
                                             const Allocations& allocations,
                                             const TuneOptions& options) {
  const DeviceIndex device = options.device;
  const bool exists = device.value() < snapshot.device_traces.size() &&
                      !snapshot.device_traces[device.value()].empty();
  if (!exists) return std::optional<OomReport>();
  return OomAnalysis(snapshot, allocations, options).explain();
}

}  // namespace ashlar
