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

// Calls make_report() with the settings and the memory limit of the recording. `keep_going` is
// polled by several threads; if it returns false, the replays stop with kTimeout.
Result<Report> report_recording(const DeviceRecording& run, std::function<bool()> keep_going = {});

// Returns the requested bytes of each stack at the peak, largest first. Stacks are numbered as in
// run.recording().stacks(detail).
std::vector<StackTotal> stacks_at_peak(const DeviceRecording& run, const Report& report,
                                       StackDetail detail = StackDetail::kUserCode);

// Groups the bytes at the peak by stack as stacks_at_peak() does.
nlohmann::ordered_json report_json(const DeviceRecording& run, const Report& report,
                                   StackDetail detail = StackDetail::kUserCode);

// Returns the peaks and the causes of the gap at the peak, as JSON.
nlohmann::ordered_json peaks_json(const Report& report);

struct CauseRow {
  const char* key;
  const char* description;
  size_t bytes;
};

std::vector<CauseRow> cause_rows(const GapCauses& causes);

// Returns one sentence if the replay under the recorded settings differs from the recording, so
// that replayed values are estimates; otherwise an empty string.
std::string fidelity_warning(const Report& report);

// Returns recommendations of one or two sentences each.
std::vector<std::string> make_advice(const DeviceRecording& run, const Report& report);

// Formats a percentage: "12.5 %".
std::string format_percent(size_t part, size_t whole);

}  // namespace ashlar
