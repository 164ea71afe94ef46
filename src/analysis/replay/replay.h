// SPDX-License-Identifier: Apache-2.0
//
// A recorded run lived through again: the real engine on the simulated device, allocation by
// allocation. Under the settings of the recording it does what was done; under others, it tells
// what would have been.
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
  AllocatorOptions recorded{};  // what the run was recorded under
  DeviceIndex device{};
  size_t capacity_bytes = 0;             // of the device
  std::optional<size_t> cap_bytes{};     // the most this process may have
  std::optional<uint32_t> look_after{};  // an entry after which the segments are looked at
  bool stop_at_oom = false;  // end with the first failure, and look at the segments there
  std::function<void(double share)> progress{};  // now and then
  std::function<bool()> is_wanted{};             // asked now and then; false: it ends
};

// An allocation that failed.
struct ReplayedOom {
  // Unset: it was there before the first entry, and there is no room for it.
  std::optional<uint32_t> entry{};
  size_t bytes = 0;           // asked for; of a recorded failure, as rounded then
  bool was_recorded = false;  // it failed in the recorded run, too
  StreamId stream{};          // as recorded, like the rest
  PoolId pool{};
  StackId stack{};
  std::string message{};
};

// A live allocation, and where it lay in the replay.
struct PlacedAllocation {
  DeviceAddress address{};
  uint32_t allocation = 0;  // position in Allocations::all
};

// What was held after an entry; only where it changed.
struct ReservedChange {
  uint32_t entry = 0;
  size_t reserved_bytes = 0;
};

struct ReplayResult {
  uint64_t event_count = 0;
  uint64_t alloc_count = 0;
  uint64_t free_count = 0;
  uint64_t same_address_count = 0;  // blocks that lie where they lay
  AllocatorStats stats{};
  std::vector<ReplayedOom> ooms{};
  sim::CallCosts driver{};
  std::optional<double> recorded_us{};  // as duration_us() has it
  std::optional<Fidelity> fidelity{};   // null: under other settings than the recorded ones
  std::vector<ReservedChange> reserved{};
  uint32_t peak_entry = 0;                    // where the reserved bytes were the most, first
  std::vector<SnapshotSegment> looked_at{};   // after `look_after`; streams and pools as recorded
  std::vector<PlacedAllocation> live_then{};  // when they were looked at, by address
};

// The capacity to assume where nobody says: that of the device the cost model is about, or what
// the recorded run had, if that is more.
size_t assumed_capacity_bytes(const Snapshot& snapshot, DeviceIndex device);

// kInvalidArgument: the options make no sense, or there is no such device in the snapshot.
// kTimeout: nobody wants it any more.
Result<ReplayResult> replay(const Snapshot& snapshot, const Allocations& allocations,
                            const ReplayOptions& options);

}  // namespace ashlar
