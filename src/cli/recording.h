// A recorded run, read from a file for a command that asks about it.
#pragma once

#include <optional>
#include <string>

#include "analysis/allocations.h"
#include "ashlar/options.h"
#include "ashlar/snapshot.h"
#include "ashlar/status.h"

namespace ashlar {

struct Recording {
  std::string file{};
  Snapshot snapshot{};
  DeviceIndex device{};
  AllocatorOptions options{};  // it was recorded under
  std::string ignored{};       // what of its settings could not be understood; empty: nothing
  Allocations allocations{};

  const std::vector<TraceEntry>& trace() const { return snapshot.device_traces[device.value()]; }
};

// Of the device that is asked for, or else of the one with the longest trace.
// kFormat: the file is unreadable, or has no trace. kUsage: it has no such device.
Result<Recording> read_recording(const std::string& file, std::optional<uint64_t> device);

}  // namespace ashlar
