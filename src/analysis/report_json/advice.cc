// SPDX-License-Identifier: Apache-2.0
//
// What to do about a recorded run: sentences that are proven by replay, or by what was found.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/report_json/report_json.h"
#include "analysis/report_json/tune_json.h"
#include "analysis/settings.h"
#include "base/units.h"

namespace ashlar {
namespace {

constexpr double kWorthSaying = 0.02;  // of the reserved memory

// Blocks are larger than requests where the settings say so, or where too little is left to split
// off: 1 MiB in a plain segment, 512 B in an expandable one.
std::string rounding_advice(size_t bytes, const AllocatorOptions& recorded) {
  const auto& divisions = recorded.roundup_power2_divisions;
  const bool rounds_up =
      std::any_of(divisions.begin(), divisions.end(), [](uint32_t count) { return count > 1; });
  const char* what =
      rounds_up ? "a finer roundup_power2_divisions, or none, saves some of it."
      : recorded.expandable_segments
          ? "blocks are multiples of 512 B; fewer and larger allocations have less of it."
          : "blocks keep up to 1 MiB that is too little to split off; expandable_segments:True "
            "splits it off.";
  return fmt::format("{} are rounding: {}", format_bytes(bytes), what);
}

}  // namespace

std::string percent_text(size_t part, size_t whole) {
  if (whole == 0) return "0 %";
  return fmt::format("{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::vector<std::string> advice_of(const Report& report, const AllocatorOptions& recorded) {
  std::vector<std::string> advice;
  const auto reserved = static_cast<size_t>(report.replayed.stats.reserved_bytes.all.peak);
  const auto enough = static_cast<size_t>(kWorthSaying * static_cast<double>(reserved));
  if (const size_t count = report.replayed.ooms.size(); count > 0) {
    advice.push_back(fmt::format(
        "It ran out of memory {}: `ashlar oom` says what was asked for and what would have "
        "fitted.",
        format_times(count)));
  }
  const Origin origin = origin_of(recorded);
  bool any_saves = false;
  std::string paged;  // for whoever cannot set it
  for (const Alternative& other : report.alternatives) {
    if (other.oom_count > 0 || other.peak_reserved_bytes + enough > reserved) continue;
    const size_t saved = reserved - other.peak_reserved_bytes;
    const std::string what = fmt::format("{} at its peak, {} ({}) less. Replayed, not guessed.",
                                         format_bytes(other.peak_reserved_bytes),
                                         format_bytes(saved), percent_text(saved, reserved));
    if (!can_be_set(other.setting, origin)) {
      paged = fmt::format("Ashlar's paged engine would have had {} {}", what, kWhoGetsPaged);
      continue;
    }
    advice.push_back(fmt::format("{} {}: {}", any_saves ? "Or set" : "Set",
                                 text_of(other.setting, origin), what));
    any_saves = true;
  }
  if (!any_saves) {
    advice.push_back(
        fmt::format("No setting that was tried would have saved {}; `ashlar tune` tries more.",
                    percent_text(enough, reserved)));
  }
  if (!paged.empty()) advice.push_back(std::move(paged));
  if (report.causes.other_stream > enough) {
    advice.push_back(fmt::format(
        "{} were free on other streams: fewer streams for allocations would share them.",
        format_bytes(report.causes.other_stream)));
  }
  if (report.causes.rounding > enough) {
    advice.push_back(rounding_advice(report.causes.rounding, recorded));
  }
  if (report.start_reserved_bytes > 0) {
    advice.push_back(fmt::format(
        "The history has no beginning ({} were held already): start recording earlier, or with a "
        "larger max_entries.",
        format_bytes(report.start_reserved_bytes)));
  }
  if (!report.has_stacks) {
    advice.push_back(
        "There are no stacks in this file: record with context=\"all\" to see who allocates.");
  }
  return advice;
}

}  // namespace ashlar
