// SPDX-License-Identifier: Apache-2.0
//
// Replays a recording under many settings in parallel, to find the setting that needs the least
// memory.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "analysis/allocations.h"
#include "analysis/settings.h"
#include "ashlar/snapshot.h"
#include "ashlar/status.h"

namespace ashlar {

struct TuneOptions {
  AllocatorOptions recorded{};  // options of the recording
  DeviceIndex device{};
  size_t capacity_bytes = 0;          // capacity of the device
  std::optional<size_t> cap_bytes{};  // memory limit of the process
  bool find_min_capacity = false;
  size_t worker_count = 0;  // 0: one per hardware thread of the host
  // Called regularly on the calling thread with the fraction of the work that is done.
  std::function<void(double fraction)> progress{};
  // Polled by several threads concurrently; false cancels with kTimeout.
  std::function<bool()> keep_going{};
};

// A setting and the result of its replay.
struct Trial {
  Setting setting{};
  size_t oom_count = 0;
  size_t peak_requested_bytes = 0;
  size_t peak_reserved_bytes = 0;
  double driver_us = 0;  // modelled time in driver calls
  // The minimum capacity, as found by bisection. Unset: not computed, or the run fails even with
  // assumed_capacity_bytes(), for example because of the cap.
  std::optional<size_t> min_capacity_bytes{};

  bool completes() const { return oom_count == 0; }
};

struct TuneResult {
  std::vector<Trial> trials{};         // in the order of candidate_settings()
  RecordedAllocator allocator_kind{};  // the allocator that made the recording
  // Indexes into `trials`; unset if no such trial completes.
  std::optional<size_t> best{};   // see best_trial()
  std::optional<size_t> paged{};  // see best_paged_trial()
  size_t lower_bound_bytes = 0;   // peak of the requested bytes, which no setting can undercut
};

// Replays all candidate settings. The result does not depend on the order in which the threads run.
// kInvalidArgument and kTimeout: see replay(). kDeviceFault: no thread could be created.
Result<TuneResult> tune(const Snapshot& snapshot, const Allocations& allocations,
                        const TuneOptions& options);

// Returns the index of the best trial that completes and whose setting an allocator of this kind
// supports. The best trial has the lowest peak of reserved bytes. Driver time, then length of the
// option text, then position decide between equal peaks.
std::optional<size_t> best_trial(const std::vector<Trial>& trials,
                                 RecordedAllocator allocator_kind);

// Returns the index of the trial that represents the paged engine: the trial of its default policy
// if that completes, otherwise the best trial of its other policies.
std::optional<size_t> best_paged_trial(const std::vector<Trial>& trials);

// Returns the resolution of Trial::min_capacity_bytes for a run with this peak of reserved bytes:
// about 1/256 of the peak, from 2 MiB to 64 MiB.
size_t capacity_step_bytes(size_t peak_bytes);

}  // namespace ashlar
