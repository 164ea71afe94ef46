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

constexpr size_t kNotableDivisor = 50;  // causes below 1/50 of the reserved memory get no advice

// Whether the recorded program can use a setting through an environment variable.
enum class SettingScope { kSettable, kNotSettable };

// Blocks are larger than requests because of rounding options, or because the remainder is too
// small to split off: up to 1 MiB in a large segment that is not expandable, otherwise less than
// 512 B.
std::string rounding_advice(size_t bytes, const DeviceRecording& run) {
  const AllocatorOptions& recorded = run.options();
  const auto& divisions = recorded.roundup_power2_divisions;
  const bool rounds_up =
      std::any_of(divisions.begin(), divisions.end(), [](uint32_t count) { return count > 1; });
  const char* what =
      rounds_up ? "use more roundup_power2_divisions, or none."
      : recorded.expandable_segments
          ? "blocks are multiples of 512 B; make fewer and larger allocations."
      : run.recording().pytorch().available.expandable_segments
          ? "remainders of up to 1 MiB are not split off; expandable_segments:True avoids that."
          : "remainders of up to 1 MiB are not split off.";
  return fmt::format("{} are lost to rounding: {}", format_bytes(bytes), what);
}

// Returns the peak that savings are relative to: the recorded one or, if lower, that of its replay.
size_t baseline_bytes(const Report& report) {
  return std::min(static_cast<size_t>(report.replayed->stats.reserved_bytes.all.peak),
                  report.peak_reserved_bytes);
}

std::string effect_text(const Report& report, const Alternative& other) {
  const size_t reserved = baseline_bytes(report);
  const size_t saved = reserved - other.peak_reserved_bytes;
  return fmt::format("a replay reserved {} at its peak, {} ({}) less.",
                     format_bytes(other.peak_reserved_bytes), format_bytes(saved),
                     format_percent(saved, reserved));
}

// Returns the alternative of this scope with the lowest peak, among those that complete and are
// worthwhile; null if there is none. If peaks differ by at most about 1 %, prefers the
// setting with the shorter text.
const Alternative* best_alternative(const Report& report, RecordedAllocator allocator_kind,
                                    SettingScope scope) {
  const size_t reserved = baseline_bytes(report);
  const Alternative* best = nullptr;
  for (const Alternative& other : report.alternatives) {
    const bool is_settable = can_set(other.setting, allocator_kind);
    if (is_settable != (scope == SettingScope::kSettable)) continue;
    if (other.oom_count > 0 || !is_worthwhile(other.peak_reserved_bytes, reserved)) continue;
    const auto nearly = [](size_t bytes) { return bytes - bytes / 100; };
    const bool is_better = best == nullptr ||
                           other.peak_reserved_bytes < nearly(best->peak_reserved_bytes) ||
                           (nearly(other.peak_reserved_bytes) <= best->peak_reserved_bytes &&
                            other.setting.conf.size() < best->setting.conf.size());
    if (is_better) best = &other;
  }
  return best;
}

std::string withheld_text(const Report& report) {
  return report.peak_reserved_bytes > report.initial_reserved_bytes
             ? "Other settings are not compared: a replay cannot start from the memory that was "
               "reserved when the history began."
             : "Other settings are not compared: reserved memory was at its peak when the history "
               "began, and the requests that led to it are not recorded.";
}

// Adds the best setting and, for PyTorch recordings, the paged engine, if they are worthwhile. Also
// states which settings were not compared, and why.
void add_settings(const DeviceRecording& run, const Report& report,
                  std::vector<std::string>& advice) {
  const RecordedAllocator allocator_kind = recorded_allocator_of(run.options());
  if (!can_compare_settings(report)) {
    if (report.peak_reserved_bytes > 0) advice.push_back(withheld_text(report));
    return;
  }
  if (const Alternative* best = best_alternative(report, allocator_kind, SettingScope::kSettable)) {
    advice.push_back(fmt::format("With {}, {}", shell_assignment(best->setting, run),
                                 effect_text(report, *best)));
  } else if (report.oom_count == 0) {
    advice.push_back("None of the settings tried saves more than 1 %; `ashlar tune` tries more.");
  }
  if (const Alternative* paged =
          best_alternative(report, allocator_kind, SettingScope::kNotSettable)) {
    advice.push_back(fmt::format("With Ashlar's paged engine, {} {}", effect_text(report, *paged),
                                 paged_usage(run)));
  }
  if (!report.incomparable.empty()) {
    std::string names;
    for (const Setting& setting : report.incomparable) {
      names += (names.empty() ? "" : ", ") + format_setting(setting, allocator_kind);
    }
    advice.push_back(fmt::format(
        "Not compared: {}. A replay cannot start from the {} that were reserved when the history "
        "began.",
        names, format_bytes(report.initial_reserved_bytes)));
  }
}

}  // namespace

std::string format_percent(size_t part, size_t whole) {
  if (whole == 0) return "0 %";
  return fmt::format("{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string fidelity_warning(const Report& report) {
  if (!report.replayed) return {};
  const ReplayResult& replayed = *report.replayed;
  if (!replayed.starts_as_recorded) {
    return fmt::format(
        "Values marked \"replayed\" are estimates: the beginning of the history is missing, and "
        "the "
        "replay started with {} reserved instead of {}.",
        format_bytes(replayed.start_reserved_bytes), format_bytes(report.initial_reserved_bytes));
  }
  if (!replayed.fidelity || !replayed.fidelity->first_divergence) return {};
  return fmt::format(
      "Values marked \"replayed\" are estimates: {} of {} segment operations of the replay match "
      "the recording.",
      group_digits(replayed.fidelity->matched_count),
      group_digits(replayed.fidelity->recorded_count));
}

std::vector<std::string> make_advice(const DeviceRecording& run, const Report& report) {
  std::vector<std::string> advice;
  if (report.oom_count > 0) {
    advice.push_back(fmt::format(
        "The run ran out of memory {}: `ashlar oom` explains why and lists settings that avoid it.",
        format_times(report.oom_count)));
  }
  if (report.replayed) add_settings(run, report, advice);
  const size_t enough = report.peak_reserved_bytes / kNotableDivisor;
  if (report.causes.other_stream_bytes > enough) {
    advice.push_back(
        fmt::format("{} were free on other streams: allocate on fewer streams to share them.",
                    format_bytes(report.causes.other_stream_bytes)));
  }
  if (report.causes.rounding_bytes > enough) {
    advice.push_back(rounding_advice(report.causes.rounding_bytes, run));
  }
  if (report.initial_reserved_bytes > 0) {
    advice.push_back(fmt::format(
        "The beginning of the history is missing ({} were reserved before): start recording "
        "earlier, or with a larger max_entries.",
        format_bytes(report.initial_reserved_bytes)));
  }
  if (!report.replayed) {
    advice.push_back(
        "The file has no history, only a final state. Call "
        "torch.cuda.memory._record_memory_history() at the start of the program to record one.");
  }
  if (!report.has_stacks) {
    advice.push_back(
        "The file has no stacks: record with context=\"all\" to see where memory is allocated.");
  }
  return advice;
}

}  // namespace ashlar
