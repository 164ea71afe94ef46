// SPDX-License-Identifier: Apache-2.0
//
// A recorded run, read and looked through once: the file, the device, and the first answers. All
// questions about recorded runs begin here, whether the tool or Python asks them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/allocations.h"
#include "analysis/timeline.h"
#include "ashlar/options.h"
#include "ashlar/snapshot.h"
#include "ashlar/status.h"

namespace ashlar {

struct RecordedRun {
  std::string file{};
  Snapshot snapshot{};
  DeviceIndex device{};
  Allocations allocations{};
  Timeline timeline{};
  AllocatorOptions options{};  // it was recorded under
  std::string ignored{};       // what of its settings could not be understood; empty: nothing

  const std::vector<TraceEntry>& trace() const { return trace_of(snapshot, device); }
  // An allocation failed.
  bool has_oom() const;
  // From the first entry to the last; none: the trace does not tell.
  std::optional<double> seconds() const;
};

// kFormat: the file cannot be read. kInvalidArgument: it knows nothing of the device.
Result<RecordedRun> load_run(const std::string& file, std::optional<uint64_t> device);

// The same of a snapshot that is in memory, under a name for people.
Result<RecordedRun> run_of(Snapshot snapshot, const std::string& name,
                           std::optional<uint64_t> device);

// Ok where the run can be replayed. kFormat: there is no history of the device.
Status require_history(const RecordedRun& run);

}  // namespace ashlar
