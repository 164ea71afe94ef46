// SPDX-License-Identifier: Apache-2.0
//
// The JSON of `ashlar report`, and the strings that it shares with the printed report.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "analysis/recording.h"
#include "analysis/replay/report.h"

namespace ashlar {

// Calls make_report() with the settings of the recording. If an allocation failed in the recording,
// the replayed process is limited to the recorded peak of reserved bytes. `keep_going` is polled by
// several threads; if it returns false, the replays stop with kTimeout.
// REQUIRES: run.has_history().
Result<Report> report_recording(const DeviceRecording& run, std::function<bool()> keep_going = {});

// Returns the requested bytes of each stack at the peak, largest first. Stacks are numbered as in
// run.recording().stacks().
std::vector<StackTotal> stacks_at_peak(const DeviceRecording& run, const Report& report);

nlohmann::ordered_json report_json(const DeviceRecording& run, const Report& report,
                                   const std::vector<StackTotal>& stack_totals);

// Returns the peaks and the causes of the gap at the peak, as JSON.
nlohmann::ordered_json peaks_json(const Report& report);

struct CauseRow {
  const char* key;
  const char* description;
  size_t bytes;
};

std::vector<CauseRow> cause_rows(const GapCauses& causes);

// Returns recommendations of one or two sentences each.
std::vector<std::string> make_advice(const Report& report, const AllocatorOptions& recorded);

// Formats a percentage: "12.5 %".
std::string format_percent(size_t part, size_t whole);

}  // namespace ashlar
