// SPDX-License-Identifier: Apache-2.0
//
// What the commands that look at a recorded run have in common: their arguments, and the heading
// that says what is being looked at.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analysis/recording.h"
#include "ashlar/status.h"
#include "cli/subcommand.h"
#include "cli/terminal.h"

namespace ashlar {

inline constexpr const char* kSnapshotHelp =
    "Snapshot: pickle or JSON, plain or compressed (.xz, .zst, .gz); - reads standard input";
inline constexpr const char* kDeviceHelp = "Index of the device; default: the longest trace's";

// Opens a recording and selects a device. Errors name the command line's options.
Result<DeviceRecording> read_run(const std::string& file, std::optional<uint64_t> device);

// The same, for commands that replay the run: it has a history, and what of its settings is left
// out is complained of. kFormat: there is no history of the device.
Result<DeviceRecording> read_history(const std::string& file, std::optional<uint64_t> device,
                                     const Session& session);

// "run.pickle, device 0: 813 entries over 1.24 s", and what is missing.
std::string title_of(const DeviceRecording& run);

// Requested and reserved bytes over the whole trace. Empty where there is no trace.
std::string plot_of(const DeviceRecording& run, const Terminal& terminal);

}  // namespace ashlar
