// SPDX-License-Identifier: Apache-2.0
//
// Bounds the limit by the memory that was granted and refused, then tries both bounds by replay.
#include "analysis/replay/memory_limit.h"

#include <algorithm>

#include "analysis/recorded_size_policy.h"
#include "analysis/replay/replay.h"
#include "analysis/timeline.h"
#include "ashlar/sim.h"

namespace ashlar {
namespace {

// Returns the nearest capacity that a simulated device accepts.
size_t valid_capacity_bytes(size_t bytes) {
  return std::clamp(bytes, sim::Options().granularity_bytes, sim::kMaxCapacityBytes);
}

// An inferred device limit becomes the capacity, and an inferred process limit becomes the cap. The
// two differ: as in PyTorch, expandable segments may exceed a cap by their rounding. A device limit
// below the smallest capacity of a simulated device becomes both.
void set_limit(ReplayLimits& limits, size_t limit_bytes) {
  limits.recorded->replayed_bytes = limit_bytes;
  limits.cap_bytes.reset();
  if (limits.recorded->is_device_limit) limits.capacity_bytes = valid_capacity_bytes(limit_bytes);
  const bool is_capacity = limits.recorded->is_device_limit && limits.capacity_bytes <= limit_bytes;
  if (!is_capacity) limits.cap_bytes = limit_bytes;
}

bool is_failure(const TraceEntry& entry) {
  return entry.action == TraceAction::kOom && entry.bytes > 0;
}

// Returns whether a replay under the recorded settings and these limits fails first at the recorded
// entry.
Result<bool> reproduces_failure(const Snapshot& snapshot, const Allocations& allocations,
                                const LimitQuery& query, const ReplayLimits& limits) {
  ReplayOptions options;
  options.allocator = options.recorded = query.recorded;
  options.device = query.device;
  options.capacity_bytes = limits.capacity_bytes;
  options.cap_bytes = limits.cap_bytes;
  options.stop_at_oom = true;
  options.keep_going = query.keep_going;
  const Result<ReplayResult> replayed = replay(snapshot, allocations, options);
  if (!replayed.ok()) return replayed.status();
  return !replayed->ooms.empty() &&
         replayed->ooms.front().entry == first_failure(trace_of(snapshot, query.device));
}

}  // namespace

std::optional<uint32_t> first_failure(const std::vector<TraceEntry>& trace) {
  const auto found = std::find_if(trace.begin(), trace.end(), is_failure);
  if (found == trace.end()) return std::nullopt;
  return static_cast<uint32_t>(found - trace.begin());
}

// The limit is at least the peak of reserved memory. It is less than the reserved memory plus the
// segment size at each refused request. If the device reported less free memory than the segment
// needs, the limit is the device's, and its free memory raises the lower bound. If the bounds
// contradict each other, the limit changed during the run: a cap was set, or other processes
// allocated or freed memory of the device.
std::optional<OomLimit> infer_limit(const Snapshot& snapshot, DeviceIndex device,
                                    const AllocatorOptions& recorded) {
  const RecordedSizePolicy sizes(recorded);
  size_t held = initial_reserved_bytes(snapshot, device);
  OomLimit limit{.at_least_bytes = held, .below_bytes = SIZE_MAX};
  std::optional<OomLimit> at_first_failure;
  for (const TraceEntry& entry : trace_of(snapshot, device)) {
    held += reserved_delta(entry);
    limit.at_least_bytes = std::max(limit.at_least_bytes, held);
    if (!is_failure(entry)) continue;
    const size_t rounded = std::min(entry.bytes, kRequestLimitBytes - 1);
    const size_t segment_bytes = sizes.segment_bytes(rounded);
    // Oom entries store the free memory of the device in place of an address.
    const size_t device_free = entry.address.value();
    const bool is_device_limit = device_free < segment_bytes;
    const size_t granted = held + (is_device_limit ? device_free : 0);
    limit.below_bytes = std::min(limit.below_bytes, held + segment_bytes);
    limit.at_least_bytes = std::max(limit.at_least_bytes, granted);
    limit.is_device_limit |= is_device_limit;
    if (!at_first_failure) {
      at_first_failure = OomLimit{.at_least_bytes = granted,
                                  .below_bytes = held + segment_bytes,
                                  .is_device_limit = is_device_limit,
                                  .varies = true};
    }
  }
  if (!at_first_failure) return std::nullopt;
  return limit.at_least_bytes < limit.below_bytes ? limit : at_first_failure;
}

// The lower bound is tried first, because settings that complete under it almost always complete
// under any limit in the range (see Tuner::find_min_capacity).
Result<ReplayLimits> find_limits(const Snapshot& snapshot, const Allocations& allocations,
                                 const LimitQuery& query) {
  ReplayLimits limits;
  limits.capacity_bytes = query.capacity_bytes.value_or(
      valid_capacity_bytes(assumed_capacity_bytes(snapshot, query.device)));
  limits.cap_bytes = query.cap_bytes;
  if (query.capacity_bytes || query.cap_bytes) return limits;
  limits.recorded = infer_limit(snapshot, query.device, query.recorded);
  if (!limits.recorded) return limits;
  // Adds one byte, because the cap is converted to a fraction, which may round down.
  const size_t lower = limits.recorded->at_least_bytes + 1;
  for (const size_t limit_bytes : {lower, limits.recorded->below_bytes - 1}) {
    set_limit(limits, limit_bytes);
    const Result<bool> is_reproduced = reproduces_failure(snapshot, allocations, query, limits);
    if (!is_reproduced.ok()) return is_reproduced.status();
    if (*is_reproduced) return limits;
  }
  set_limit(limits, lower);
  return limits;
}

}  // namespace ashlar
