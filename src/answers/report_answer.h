// SPDX-License-Identifier: Apache-2.0
//
// What `ashlar report` answers to programs, and what of it people are told in the same words.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "analysis/report.h"
#include "analysis/stack_index.h"
#include "answers/recorded_run.h"

namespace ashlar {

// As make_report(), under the settings and within the limits of the recording. `is_wanted` is asked
// now and then, by several threads at once; false: it ends, with kTimeout.
// REQUIRES: require_history(run) is ok.
Result<Report> report_on(const RecordedRun& run, std::function<bool()> is_wanted = {});

// Who had the memory at the peak, the most first.
struct PeakUsers {
  StackIndex stacks{};
  std::vector<StackUse> users{};
};
// The run outlives what comes of it.
PeakUsers users_at_peak(const RecordedRun& run, const Report& report);

nlohmann::ordered_json report_answer(const RecordedRun& run, const Report& report,
                                     const PeakUsers& users);

// --- parts of it, for both kinds of reader -------------------------------------------------------

// The peaks, and what the gap at the peak is made of.
nlohmann::ordered_json peaks_answer(const Report& report);

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
