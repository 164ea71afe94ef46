// SPDX-License-Identifier: Apache-2.0
//
// Code that the commands for recordings share: argument help, loading, title and plot.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/recording.h"
#include "analysis/report_json/recorded_json.h"
#include "ashlar/status.h"
#include "cli/subcommand.h"
#include "cli/terminal/terminal.h"
#include "files/source_folders.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's namespace
class App;
}

namespace ashlar {

inline constexpr const char* kSnapshotHelp = "Snapshot (pickle or JSON, may be compressed), or -";
inline constexpr const char* kDeviceHelp = "Device; default: out of memory, or the most memory";

// Formats a count with its noun: "1 entry", "2,000 entries".
std::string count_text(size_t count, const char* singular, const char* plural);

// Declares --stacks. `detail` must outlive the parser.
void add_stacks_option(CLI::App& parser, StackDetail& detail);

// Declares --source. `folders` must outlive the parser.
void add_source_option(CLI::App& parser, std::vector<std::string>& folders);
// Returns the folders of --source. kInvalidArgument: one of them is not a folder.
Result<SourceFolders> source_folders(const std::vector<std::string>& folders);

// Formats the shown frames of a stack, one line per frame: at most the innermost kFramesShown or,
// with --stacks full, all.
std::vector<std::string> stack_lines_of(const StackIndex& stacks, uint32_t number,
                                        StackDetail detail);

// Returns the advice to compile with -g if C++ functions lack line numbers; otherwise an empty
// string.
std::string lines_note(const StackIndex& stacks);

// Opens a recording and selects a device. An error about the device names the option --device.
Result<DeviceRecording> read_run(const std::string& file, std::optional<uint64_t> device);

// Like read_run(), for commands that replay the run: prints a message about recorded settings that
// are ignored.
Result<DeviceRecording> read_history(const std::string& file, std::optional<uint64_t> device,
                                     const Session& session);

// Wraps text at the right margin.
std::string paragraph(const std::string& text);

// Returns assumption_text() wrapped; empty for recordings of Ashlar.
std::string assumption_lines(const DeviceRecording& run);

// Returns one line with the peaks of the devices that a command does not show; empty if there are
// none.
std::string other_devices_text(const DeviceRecording& run);

// Prints no_history_text(), or no_history_json() if `json` is set.
// REQUIRES: !run.has_history().
ExitCode print_no_history(const DeviceRecording& run, HistoryQuestion question, bool json,
                          const Session& session);

// Returns a title such as "run.pickle, device 0: 813 entries over 1.24 s", with the number of
// allocations that predate the trace, if any, and other_devices_text().
std::string title_of(const DeviceRecording& run);

// Plots requested and reserved bytes over the whole trace. Returns an empty string if the recording
// has no history.
std::string plot_of(const DeviceRecording& run, const Terminal& terminal);

}  // namespace ashlar
