// SPDX-License-Identifier: Apache-2.0
//
// What `ashlar report` answers to programs, and what of it people are told in the same words.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "analysis/recording.h"
#include "analysis/replay/report.h"

namespace ashlar {

// As make_report(), under the settings and within the limits of the recording. `is_wanted` is asked
// now and then, by several threads at once; false: it ends, with kTimeout.
// REQUIRES: require_history(run) is ok.
Result<Report> report_on(const DeviceRecording& run, std::function<bool()> is_wanted = {});

// Requested bytes at the peak by stack, largest first. Stacks are numbers of run.recording().
std::vector<StackUse> users_at_peak(const DeviceRecording& run, const Report& report);

nlohmann::ordered_json report_json(const DeviceRecording& run, const Report& report,
                                   const std::vector<StackUse>& users);

// --- parts of it, for both kinds of reader -------------------------------------------------------

// The peaks, and what the gap at the peak is made of.
nlohmann::ordered_json peaks_json(const Report& report);

struct CauseRow {
  const char* key;
  const char* words;
  size_t bytes;
};

std::vector<CauseRow> cause_rows(const Causes& causes);

// Sentences, each with a number.
std::vector<std::string> advice_of(const Report& report, const AllocatorOptions& recorded);

// "12.5 %".
std::string percent_text(size_t part, size_t whole);

}  // namespace ashlar
