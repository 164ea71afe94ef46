// SPDX-License-Identifier: Apache-2.0
//
// The memory limit of a recorded run, inferred from its failed allocations. All commands that
// replay a recording apply it unless they are given another limit. Pure functions.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "analysis/allocations.h"
#include "ashlar/options.h"
#include "ashlar/snapshot.h"
#include "ashlar/status.h"

namespace ashlar {

// The limit of a run: at_least_bytes <= limit < below_bytes if it was inferred;
// at_least_bytes == limit == below_bytes otherwise.
struct OomLimit {
  size_t at_least_bytes = 0;
  size_t below_bytes = 0;
  size_t replayed_bytes = 0;     // the limit used in replays
  bool is_device_limit = false;  // capacity of the device; false: cap of the process
  // The limit changed during the run: at some time, reserved memory exceeded the upper bound that a
  // failure at another time implies. The bounds are then those at the first failure.
  bool varies = false;

  bool is_inferred() const { return below_bytes != at_least_bytes; }
};

// Returns the index of the first entry that records a failed request. Entries without a size, which
// only a damaged file contains, do not count.
std::optional<uint32_t> first_failure(const std::vector<TraceEntry>& trace);

// Returns the bounds of the recorded limit, without replayed_bytes; unset if no allocation failed.
std::optional<OomLimit> infer_limit(const Snapshot& snapshot, DeviceIndex device,
                                    const AllocatorOptions& recorded);

// The limits of a replay.
struct ReplayLimits {
  size_t capacity_bytes = 0;           // capacity of the device
  std::optional<size_t> cap_bytes{};   // memory limit of the process
  std::optional<OomLimit> recorded{};  // set if the limits are those of the recorded run
};

struct LimitQuery {
  DeviceIndex device{};
  AllocatorOptions recorded{};  // options of the recording
  // Limits given by the user. If both are unset, the limits of the recorded run apply.
  std::optional<size_t> capacity_bytes{};
  std::optional<size_t> cap_bytes{};
  std::function<bool()> keep_going{};
};

// Returns the limits for replays of a recording. Limits in the query are returned unchanged; an
// unset capacity becomes the assumed capacity, see assumed_capacity_bytes(). If both limits are
// unset and an allocation failed, infers the limit: tries the lower, then the upper bound, and
// returns the first with which a replay under the recorded settings fails at the recorded entry;
// the lower bound if neither does. Errors are those of replay().
Result<ReplayLimits> find_limits(const Snapshot& snapshot, const Allocations& allocations,
                                 const LimitQuery& query);

}  // namespace ashlar
