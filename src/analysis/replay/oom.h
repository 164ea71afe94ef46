// SPDX-License-Identifier: Apache-2.0
//
// Explains an out-of-memory error: the request, the free memory and why it could not be used, and
// the settings under which the run completes within the same limit, according to replay.
#pragma once

#include <optional>
#include <vector>

#include "analysis/replay/tune.h"

namespace ashlar {

struct OomOptions {
  // Device, capacity and cap for all replays. If no limit is given and the trace records a failure,
  // the limit of the process is inferred from the oom entries.
  TuneOptions tuning{};
  bool is_limit_given = false;
};

// The memory limit of the process: at_least_bytes <= limit < below_bytes if it was inferred;
// at_least_bytes == limit == below_bytes otherwise.
struct OomLimit {
  size_t at_least_bytes = 0;
  size_t below_bytes = 0;
  size_t replayed_bytes = 0;     // the limit used in replays
  bool is_device_limit = false;  // capacity of the device; false: cap of the process

  bool is_inferred() const { return below_bytes != at_least_bytes; }
};

// A block in use that keeps its segment from being freed.
struct OccupyingBlock {
  DeviceAddress address{};
  size_t bytes = 0;
  size_t requested_bytes = 0;
  StackId stack{};
  std::optional<uint32_t> alloc_entry{};  // unset: the block predates the trace or is pending free
  std::optional<int64_t> age_us{};        // age at the failure; unset: unknown
};

// A segment with free memory that cannot be returned to the device because of its live blocks.
struct OccupiedSegment {
  DeviceAddress address{};
  size_t total_bytes = 0;
  size_t free_bytes = 0;
  size_t largest_hole_bytes = 0;
  StreamId stream{};
  bool is_usable = false;                        // whether it can_serve() the failed request
  size_t live_count = 0;                         // blocks in use
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

struct OomReport {
  // The entry of the failed request. Unset: even the allocations that predate the trace do not fit.
  std::optional<uint32_t> entry{};
  bool was_recorded = false;                // the recorded run failed here, too
  std::optional<size_t> requested_bytes{};  // unset: the file has only the rounded size
  size_t rounded_bytes = 0;
  size_t segment_bytes = 0;  // size of the segment that the request needs
  StreamId stream{};
  StackId stack{};
  size_t device_free_bytes = 0;  // as recorded or, if not recorded, as replayed
  OomLimit limit{};
  std::optional<OomState> state{};  // unset: the replay did not reproduce the recorded failure
  TuneResult settings{};
};

// Explains the first failure of the run. The result is unset if no allocation fails. Errors are
// those of tune().
Result<std::optional<OomReport>> explain_oom(const Snapshot& snapshot,
                                             const Allocations& allocations,
                                             const OomOptions& options);

}  // namespace ashlar
