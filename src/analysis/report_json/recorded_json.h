// SPDX-License-Identifier: Apache-2.0
//
// Shared by the commands on recordings: the object "recorded" of their JSON, the results for
// recordings without a history, and the limits and options of replays.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "analysis/recording.h"
#include "analysis/replay/memory_limit.h"
#include "analysis/replay/tune.h"

namespace ashlar {

// Returns {"peak_requested_bytes", "peak_reserved_bytes", "lower_bound_bytes", "peak_entry",
// "live_bytes_at_end", "ooms", "other_devices"}. `peak_entry` is that of Timeline::reserved_peak.
nlohmann::ordered_json recorded_json(const DeviceRecording& run);

// The questions that only a history answers; each belongs to one command.
enum class HistoryQuestion { kReplayRun, kTuneSettings, kExplainFailure, kFindLeaks };

// Returns the result of a command that needs a history, for a recording without one: why there is
// none, the memory in the final state, and how to record a history.
// REQUIRES: !run.has_history().
std::string no_history_text(const DeviceRecording& run, HistoryQuestion question);
nlohmann::ordered_json no_history_json(const DeviceRecording& run, HistoryQuestion question);

// Calls find_limits() of memory_limit.h for the device of the recording. `capacity_bytes` and
// `cap_bytes` are the limits given by the user, if any.
Result<ReplayLimits> find_limits(const DeviceRecording& run, std::optional<size_t> capacity_bytes,
                                 std::optional<size_t> cap_bytes,
                                 std::function<bool()> keep_going = {});

// Returns options for tune() with the settings of the recording and these limits.
TuneOptions tune_options(const DeviceRecording& run, const ReplayLimits& limits);

// Formats a limit: "2.79 GiB" or, if it was inferred, "about 2.79 GiB (2.79 GiB was granted, 2.80
// GiB refused)".
std::string format_limit(const OomLimit& limit);

}  // namespace ashlar
