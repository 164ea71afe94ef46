// SPDX-License-Identifier: Apache-2.0
//
// A recorded run replayed under many settings, side by side: which would have needed the least?
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
  AllocatorOptions recorded{};  // what the run was recorded under
  DeviceIndex device{};
  size_t capacity_bytes = 0;          // of the device
  std::optional<size_t> cap_bytes{};  // the most this process may have
  bool find_min_capacity = false;
  size_t worker_count = 0;  // 0: one for each core of the host
  // How much of the work is done; called now and then, on the caller's thread.
  std::function<void(double share)> progress{};
  // Asked now and then, by several threads at once; false: it ends.
  std::function<bool()> is_wanted{};
};

// One setting, and what came of it.
struct Trial {
  Setting setting{};
  size_t oom_count = 0;
  size_t peak_requested_bytes = 0;
  size_t peak_reserved_bytes = 0;
  double driver_us = 0;  // as modelled
  // The least that the device must have, as far as bisection finds it; unset: not asked for, or
  // there is none, since the cap or the device is too small in any case.
  std::optional<size_t> min_capacity_bytes{};

  bool completes() const { return oom_count == 0; }
};

struct TuneResult {
  std::vector<Trial> trials{};  // in the order of sensible_settings()
  Origin origin{};              // of the run
  // Positions in `trials`; unset: none completes.
  std::optional<size_t> best{};   // of those that allocators of that origin can be told
  std::optional<size_t> paged{};  // of the paged engine: its default policy, or else the best
  size_t lower_bound_bytes = 0;   // peak requested: no setting can need less
};

// In parallel; the result does not depend on the order in which things happen.
// kInvalidArgument and kTimeout: as replay(). kDeviceFault: the host has no thread for us.
Result<TuneResult> tune(const Snapshot& snapshot, const Allocations& allocations,
                        const TuneOptions& options);

// Of those that complete and can be set: the least peak reserved, then the least driver time, then
// the shortest text, then the first.
std::optional<size_t> best_of(const std::vector<Trial>& trials, Origin origin);

// What speaks for the paged engine: its default policy if that completes; otherwise the one that
// best_of() would choose of the others.
std::optional<size_t> paged_of(const std::vector<Trial>& trials);

// How fine the smallest capacity is found: 64 MiB, or less where less is needed in all.
size_t capacity_step_bytes(size_t enough_bytes);

}  // namespace ashlar
