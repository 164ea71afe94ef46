// SPDX-License-Identifier: Apache-2.0
//
// Code that the commands for recordings share: argument help, loading, title and plot.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analysis/recording.h"
#include "ashlar/status.h"
#include "cli/subcommand.h"
#include "cli/terminal/terminal.h"

namespace ashlar {

inline constexpr const char* kSnapshotHelp = "Snapshot (pickle or JSON, may be compressed), or -";
inline constexpr const char* kDeviceHelp = "Device index; default: that of the longest trace";

// Opens a recording and selects a device. An error about the device names the option --device.
Result<DeviceRecording> read_run(const std::string& file, std::optional<uint64_t> device);

// Like read_run(), for commands that replay the run: requires a trace, and prints a message about
// recorded settings that are ignored. kFormat: the device has no trace.
Result<DeviceRecording> read_history(const std::string& file, std::optional<uint64_t> device,
                                     const Session& session);

// Returns a title such as "run.pickle, device 0: 813 entries over 1.24 s", with the number of
// allocations that predate the trace, if any.
std::string title_of(const DeviceRecording& run);

// Plots requested and reserved bytes over the whole trace. Returns an empty string if there is no
// trace.
std::string plot_of(const DeviceRecording& run, const Terminal& terminal);

}  // namespace ashlar
