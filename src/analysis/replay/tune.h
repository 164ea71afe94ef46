// SPDX-License-Identifier: Apache-2.0
//
// Replays a recording under many settings in parallel, to find the setting that needs the least
// memory.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "analysis/allocations.h"
#include "analysis/replay/fidelity.h"
#include "analysis/replay/memory_limit.h"
#include "analysis/settings.h"
#include "ashlar/snapshot.h"
#include "ashlar/status.h"

namespace ashlar {

struct TuneOptions {
  AllocatorOptions recorded{};   // options of the recording
  AvailableOptions available{};  // settings with other options are not tried
  DeviceIndex device{};
  size_t capacity_bytes = 0;          // capacity of the device
  std::optional<size_t> cap_bytes{};  // memory limit of the process
  // Set if the capacity and the cap are the limits of the recorded run; see find_limits().
  std::optional<OomLimit> recorded_limit{};
  bool find_min_capacity = false;
  // The number of driver calls that the replays of one search for the minimum capacity may make, in
  // addition to a few per entry. The default takes about a second.
  uint64_t max_search_driver_calls = 1'000'000;
  size_t worker_count = 0;  // 0: one per hardware thread of the host
  // Called regularly on the calling thread with the fraction of the work that is done.
  std::function<void(double fraction)> progress{};
  // Polled by several threads concurrently; false cancels with kTimeout.
  std::function<bool()> keep_going{};
};

// A setting and the result of its replay.
struct Trial {
  Setting setting{};
  // ReplayResult::starts_as_recorded. If false, the trial is not compared: its reserved memory at
  // the start differs from that of the other trials.
  bool is_comparable = true;
  size_t oom_count = 0;
  size_t peak_requested_bytes = 0;
  size_t peak_reserved_bytes = 0;
  double driver_us = 0;  // modelled time in driver calls
  // Set if the policy and the limits are those of the recording.
  std::optional<Fidelity> fidelity{};
  // The minimum capacity, as found by bisection. Unset: not computed, or the run fails even with
  // assumed_capacity_bytes(), for example because of the cap.
  std::optional<size_t> min_capacity_bytes{};
  // The search stopped early, because its replays made too many driver calls. The run completes
  // with `min_capacity_bytes`, but may also complete with less.
  bool is_min_capacity_bound = false;

  bool completes() const { return oom_count == 0; }
};

struct TuneResult {
  std::vector<Trial> trials{};         // in the order of candidate_settings()
  RecordedAllocator allocator_kind{};  // the allocator that made the recording
  // Indexes into `trials`; unset if no such trial completes.
  std::optional<size_t> best{};   // see best_trial()
  std::optional<size_t> paged{};  // see best_paged_trial()
  size_t lower_bound_bytes = 0;   // Timeline::lower_bound
  // Savings are relative to this peak: that of the recorded setting's trial or, if the limits are
  // those of the recorded run and the recorded peak is lower, the recorded peak.
  size_t baseline_bytes = 0;
  // Whether reserved memory ever exceeded its value before the first entry. If not, its peak
  // predates the history, so trials cannot show a lower one.
  bool has_growth = true;

  // Returns whether the peaks of the trials can be compared with the recorded peak.
  bool can_compare() const { return has_growth && trials.front().is_comparable; }
  // Returns whether the best trial saves more than 1 % or, unlike the recorded setting, completes.
  bool has_gain() const;
};

// Replays all candidate settings. The result does not depend on the order in which the threads run.
// kInvalidArgument and kTimeout: see replay(). kDeviceFault: no thread could be created.
Result<TuneResult> tune(const Snapshot& snapshot, const Allocations& allocations,
                        const TuneOptions& options);

// Returns the index of the best comparable trial that completes and whose setting an allocator of
// this kind supports. The best trial is the simplest of those whose peak of reserved bytes is at
// most 1 % above the lowest: the recorded setting, otherwise the one with the fewest options. Then
// the peak, driver time, length of the option text and position decide.
std::optional<size_t> best_trial(const std::vector<Trial>& trials,
                                 RecordedAllocator allocator_kind);

// Returns the index of the trial that represents the paged engine: the trial of its default policy
// if that completes, otherwise the best trial of its other policies.
std::optional<size_t> best_paged_trial(const std::vector<Trial>& trials);

// Returns whether a peak of reserved bytes is so much lower than another that a change of settings
// is worth it: by more than 1 %. All commands propose settings by this rule.
bool is_worthwhile(size_t peak_bytes, size_t baseline_bytes);

// Returns the resolution of Trial::min_capacity_bytes for a run with this peak of reserved bytes:
// about 1/256 of the peak, from 2 MiB to 64 MiB.
size_t capacity_step_bytes(size_t peak_bytes);

}  // namespace ashlar
