// SPDX-License-Identifier: Apache-2.0
//
// Recommendations for a recorded run, based on replays and on the causes of its gap.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/report_json/report_json.h"
#include "analysis/report_json/tune_json.h"
#include "analysis/settings.h"
#include "base/units.h"

namespace ashlar {
namespace {

constexpr double kMinSavedFraction = 0.02;  // fraction of the reserved memory

// Blocks are larger than requests because of rounding options, or because the remainder is too
// small to split off: up to 1 MiB in a large segment that is not expandable, otherwise less than
// 512 B.
std::string rounding_advice(size_t bytes, const AllocatorOptions& recorded) {
  const auto& divisions = recorded.roundup_power2_divisions;
  const bool rounds_up =
      std::any_of(divisions.begin(), divisions.end(), [](uint32_t count) { return count > 1; });
  const char* what =
      rounds_up ? "use more roundup_power2_divisions, or none."
      : recorded.expandable_segments
          ? "blocks are multiples of 512 B; make fewer and larger allocations."
          : "remainders of up to 1 MiB are not split off; expandable_segments:True avoids that.";
  return fmt::format("{} are lost to rounding: {}", format_bytes(bytes), what);
}

}  // namespace

std::string format_percent(size_t part, size_t whole) {
  if (whole == 0) return "0 %";
  return fmt::format("{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::vector<std::string> make_advice(const Report& report, const AllocatorOptions& recorded) {
  std::vector<std::string> advice;
  const auto reserved = static_cast<size_t>(report.replayed.stats.reserved_bytes.all.peak);
  const auto enough = static_cast<size_t>(kMinSavedFraction * static_cast<double>(reserved));
  if (const size_t count = report.replayed.ooms.size(); count > 0) {
    advice.push_back(fmt::format(
        "The run ran out of memory {}: `ashlar oom` explains why and lists settings that avoid it.",
        format_times(count)));
  }
  const RecordedAllocator allocator_kind = recorded_allocator_of(recorded);
  bool any_saves = false;
  std::string paged;  // advice for an allocator that cannot select the paged engine
  for (const Alternative& other : report.alternatives) {
    if (other.oom_count > 0 || other.peak_reserved_bytes + enough > reserved) continue;
    const size_t saved = reserved - other.peak_reserved_bytes;
    const std::string effect = fmt::format("a replay reserved {} at its peak, {} ({}) less.",
                                           format_bytes(other.peak_reserved_bytes),
                                           format_bytes(saved), format_percent(saved, reserved));
    if (!can_set(other.setting, allocator_kind)) {
      paged = fmt::format("With Ashlar's paged engine, {} {}", effect, kPagedAvailability);
      continue;
    }
    advice.push_back(
        fmt::format("With {}, {}", format_setting(other.setting, allocator_kind), effect));
    any_saves = true;
  }
  if (!any_saves) {
    advice.push_back(
        fmt::format("None of the settings tried saves at least {}; `ashlar tune` tries more.",
                    format_percent(enough, reserved)));
  }
  if (!paged.empty()) advice.push_back(std::move(paged));
  if (report.causes.other_stream_bytes > enough) {
    advice.push_back(
        fmt::format("{} were free on other streams: allocate on fewer streams to share them.",
                    format_bytes(report.causes.other_stream_bytes)));
  }
  if (report.causes.rounding_bytes > enough) {
    advice.push_back(rounding_advice(report.causes.rounding_bytes, recorded));
  }
  if (report.initial_reserved_bytes > 0) {
    advice.push_back(fmt::format(
        "The beginning of the history is missing ({} were reserved before): start recording "
        "earlier, or with a larger max_entries.",
        format_bytes(report.initial_reserved_bytes)));
  }
  if (!report.has_stacks) {
    advice.push_back(
        "The file has no stacks: record with context=\"all\" to see where memory is allocated.");
  }
  return advice;
}

}  // namespace ashlar
