// What the commands that look at a recorded run have in common: the file, the device, the first
// answers, and the heading that says what is being looked at.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analysis/allocations.h"
#include "analysis/timeline.h"
#include "ashlar/options.h"
#include "ashlar/snapshot.h"
#include "ashlar/status.h"
#include "cli/subcommand.h"
#include "cli/terminal.h"

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

inline constexpr const char* kSnapshotHelp =
    "Snapshot: pickle or JSON, plain or compressed (.xz, .zst, .gz); - reads standard input";
inline constexpr const char* kDeviceHelp = "Index of the device; default: the longest trace's";

// kFormat: the file cannot be read. kUsage: it knows nothing of the device.
Result<RecordedRun> read_run(const std::string& file, std::optional<uint64_t> device);

// The same, for commands that replay the run: it has a history, and what of its settings is left
// out is complained of. kFormat: there is no history of the device.
Result<RecordedRun> read_history(const std::string& file, std::optional<uint64_t> device,
                                 const Session& session);

// "run.pickle, device 0: 813 entries over 1.24 s", and what is missing.
std::string title_of(const RecordedRun& run);

// Requested and reserved bytes over the whole trace. Empty where there is no trace.
std::string plot_of(const RecordedRun& run, const Terminal& terminal);

}  // namespace ashlar
