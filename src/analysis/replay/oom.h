// SPDX-License-Identifier: Apache-2.0
//
// Explains an out-of-memory error: the request, the free memory and why it could not be used, the
// minimum memory that the run needs, and the settings under which a replay completes within the
// same limit. Pure functions.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "analysis/replay/tune.h"

namespace ashlar {

// A block in use or pending free, which keeps its segment from being freed.
struct OccupyingBlock {
  DeviceAddress address{};
  size_t bytes = 0;
  size_t requested_bytes = 0;
  StackId stack{};
  // Unset: the block predates the trace, or is pending free in a replay.
  std::optional<uint32_t> alloc_entry{};
  std::optional<int64_t> age_us{};  // age at the failure; unset: unknown
};

// A segment with free memory that cannot be returned to the device because of its live blocks.
struct OccupiedSegment {
  DeviceAddress address{};
  size_t total_bytes = 0;
  size_t free_bytes = 0;
  size_t largest_hole_bytes = 0;
  StreamId stream{};
  bool is_usable = false;                        // whether it can_serve() the failed request
  size_t live_count = 0;                         // blocks in use or pending free
  std::vector<OccupyingBlock> largest_blocks{};  // in descending order of size
};

// The state of the allocator at the failure, after the allocator returned all the memory that it
// could to the device.
struct OomState {
  size_t reserved_bytes = 0;
  size_t allocated_bytes = 0;
  size_t free_bytes = 0;         // reserved and not in use
  size_t usable_free_bytes = 0;  // free bytes in segments that can_serve() the failed request
  size_t largest_hole_bytes = 0;
  size_t largest_usable_hole_bytes = 0;
  // The segments with live blocks that have the most free bytes, in descending order; at most 5.
  std::vector<OccupiedSegment> occupied_segments{};
};

// Why a request failed. If several reasons apply, the first in this order is reported.
enum class OomReason {
  kInUse,        // the requests that are in use at the same time exceed the limit
  kFragmented,   // enough memory was free where the request could use it, but not in one piece
  kOtherArenas,  // enough memory was free, but for other streams, pools or sizes
  kRounding,     // blocks or segments are larger than their requests, or could not be split
  kUnexplained,  // the request would have fit, according to the recorded state
};

struct OomReport {
  // The entry of the failed request. Unset: even the allocations that predate the trace do not fit.
  std::optional<uint32_t> entry{};
  bool was_recorded = false;  // the recorded run failed here, too
  // Whether the replay under the recorded settings fails at this entry. If not, trials cannot show
  // which settings would have helped.
  bool is_reproduced = false;
  size_t failure_count = 0;  // recorded failures if was_recorded, otherwise those of the replay
  std::optional<size_t> requested_bytes{};  // unset: the file has only the rounded size
  size_t rounded_bytes = 0;
  size_t segment_bytes = 0;  // size of the segment that the request needs
  StreamId stream{};
  StackId stack{};
  size_t device_free_bytes = 0;  // as recorded or, if not recorded, as replayed
  OomLimit limit{};
  OomState state{};  // of the recording or, if the recorded run did not fail here, of the replay
  // Indexes into Allocations::all of the allocations in use or pending free at the failure.
  std::vector<uint32_t> live{};
  size_t live_requested_bytes = 0;
  // The largest sum of requests in use at the same time, over the whole run or, if the limit
  // varies, at this failure. The sum at this failure includes the failed request.
  size_t needed_bytes = 0;
  // The largest such sum at the other recorded failures. Separate, because a program that catches
  // failures may have requested more than it needs.
  size_t other_needed_bytes = 0;
  OomReason reason{};
  TuneResult settings{};

  // Returns the upper bound of the limit. A device limit is exact, because the recording contains
  // the free memory of the device at the failure.
  size_t largest_limit_bytes() const {
    const bool is_range = limit.is_inferred() && !limit.is_device_limit;
    return is_range ? limit.below_bytes - 1 : limit.at_least_bytes;
  }
  // Returns the bytes that could still be obtained from the device within the limit.
  size_t obtainable_bytes() const {
    const size_t reserved = state.reserved_bytes;
    const size_t room = limit.at_least_bytes - std::min(limit.at_least_bytes, reserved);
    return was_recorded ? std::min(room, device_free_bytes) : room;
  }
  // Returns the minimum by which the run exceeds the limit, whatever the allocator does.
  size_t excess_bytes() const {
    return needed_bytes - std::min(needed_bytes, largest_limit_bytes());
  }
  // Returns whether no allocator could serve the request of another recorded failure.
  bool has_other_excess() const { return other_needed_bytes > largest_limit_bytes(); }
  // Returns whether the trials show under which settings the run completes.
  bool can_compare() const {
    return is_reproduced && !limit.varies && !has_other_excess() &&
           settings.trials.front().is_comparable;
  }
};

// Returns the limit of the replays: options.recorded_limit or, if unset, the smaller of the
// capacity and the cap.
OomLimit limit_of(const TuneOptions& options);

// Explains the first failure of the run within the limits of the options. The result is unset if no
// allocation fails. Errors are those of tune().
Result<std::optional<OomReport>> explain_oom(const Snapshot& snapshot,
                                             const Allocations& allocations,
                                             const TuneOptions& options);

}  // namespace ashlar
