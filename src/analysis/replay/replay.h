// SPDX-License-Identifier: Apache-2.0
//
// Replays a recorded run with the real engine on a simulated device. Under the recorded settings
// the replay reproduces the recorded run to the extent that `Fidelity` measures; under other
// settings, it predicts the outcome.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "analysis/allocations.h"
#include "analysis/replay/fidelity.h"
#include "ashlar/options.h"
#include "ashlar/sim.h"
#include "ashlar/snapshot.h"
#include "ashlar/stats.h"

namespace ashlar {

struct ReplayOptions {
  AllocatorOptions allocator{};
  AllocatorOptions recorded{};  // options of the recording
  DeviceIndex device{};
  size_t capacity_bytes = 0;                // capacity of the device
  std::optional<size_t> cap_bytes{};        // memory limit of the process
  std::optional<uint32_t> inspect_after{};  // inspect the segments after this entry
  bool stop_at_oom = false;                 // stop at the first failure and inspect the segments
  uint32_t peaks_from = 0;                  // peaks are those from this entry on
  std::function<void(double fraction)> progress{};  // called regularly
  std::function<bool()> keep_going{};               // polled; false cancels with kTimeout
};

// An allocation that failed.
struct ReplayedOom {
  // The entry that failed. Unset: an allocation or a segment that predates the trace does not fit.
  std::optional<uint32_t> entry{};
  size_t bytes = 0;           // size of the request (rounded if was_recorded) or of the segment
  bool was_recorded = false;  // the recorded run failed here, too
  StreamId stream{};          // stream, pool and stack are those of the recording, if known
  PoolId pool{};
  StackId stack{};
  std::string message{};
};

// A live allocation with its address in the replay.
struct PlacedAllocation {
  DeviceAddress address{};
  uint32_t allocation = 0;  // index into Allocations::all
};

struct ReplayResult {
  uint64_t event_count = 0;
  uint64_t alloc_count = 0;
  uint64_t free_count = 0;
  uint64_t same_address_count = 0;  // allocations at their recorded address
  AllocatorStats stats{};
  std::vector<ReplayedOom> ooms{};
  sim::CallCosts driver{};
  std::optional<double> recorded_us{};  // the result of duration_us()
  std::optional<Fidelity> fidelity{};   // unset: the settings differ from the recording's
  size_t start_reserved_bytes = 0;      // before the first entry
  // The first entries at which the allocated and the reserved bytes were highest; unset: before the
  // first entry.
  std::optional<uint32_t> allocated_peak_entry{};
  std::optional<uint32_t> reserved_peak_entry{};
  // Whether the reserved bytes of the replay can be compared with the recording: the replay began
  // with the recorded segments and blocks, or these are at most 1 % of the recorded peak. Only the
  // classic engine can adopt them, and recorded expandable segments only under settings that use
  // expandable segments. Otherwise, the replay first performs the allocations that predate the
  // trace, in the order of their addresses.
  bool starts_as_recorded = true;
  // State after entry `inspect_after`, or at the first failure if `stop_at_oom` is set.
  std::vector<SnapshotSegment> inspected_segments{};  // with the recorded ids of streams and pools
  std::vector<PlacedAllocation> inspected_allocations{};  // sorted by address
};

// Returns the capacity to assume if none is given: the capacity of the device that the cost model
// describes, or twice the recorded peak if that is larger, but at most sim::kMaxCapacityBytes.
size_t assumed_capacity_bytes(const Snapshot& snapshot, DeviceIndex device);

// Replays the trace of one device. kInvalidArgument: the options are invalid, or the snapshot does
// not have the device. kTimeout: options.keep_going returned false.
Result<ReplayResult> replay(const Snapshot& snapshot, const Allocations& allocations,
                            const ReplayOptions& options);

}  // namespace ashlar
