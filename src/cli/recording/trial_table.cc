// SPDX-License-Identifier: Apache-2.0
//
// Formats one table row per trial.
#include "cli/recording/trial_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/report_json/tune_json.h"
#include "base/units.h"
#include "cli/terminal/table.h"

namespace ashlar {
namespace {

std::string setting_text(const Setting& setting, RecordedAllocator allocator_kind) {
  const std::string text = format_setting(setting, allocator_kind);
  return (text.empty() ? "(defaults)" : text) + (setting.is_recorded ? ", as recorded" : "");
}

std::string min_capacity_text(const Trial& trial) {
  if (!trial.min_capacity_bytes) return "none";
  return (trial.is_min_capacity_bound ? "≤ " : "") + format_bytes(*trial.min_capacity_bytes);
}

std::vector<std::string> trial_cells(const Trial& trial, const TrialTableOptions& table) {
  const auto bound = static_cast<double>(std::max<size_t>(table.lower_bound_bytes, 1));
  if (!trial.is_comparable) {
    std::vector<std::string> cells(table.has_min_capacity ? 6 : 5, "-");
    cells.front() = setting_text(trial.setting, table.allocator_kind);
    return cells;
  }
  std::vector<std::string> cells = {
      setting_text(trial.setting, table.allocator_kind), format_bytes(trial.peak_reserved_bytes),
      // A run with failed requests does not serve all requests, so it has no ratio.
      trial.completes()
          ? fmt::format("{:.3f}", static_cast<double>(trial.peak_reserved_bytes) / bound)
          : "-",
      group_digits(trial.oom_count), fmt::format("{:.1f}", trial.driver_us / 1000)};
  if (table.has_min_capacity) {
    cells.push_back(min_capacity_text(trial));
  }
  return cells;
}

bool is_paged(const Trial& trial) { return trial.setting.options.engine == EngineKind::kPaged; }

// Returns the line to print if no trial of the paged engine completes; empty if none of them is
// comparable.
std::string paged_failure_text(const TuneResult& result) {
  const bool is_compared =
      std::any_of(result.trials.begin(), result.trials.end(),
                  [](const Trial& trial) { return is_paged(trial) && trial.is_comparable; });
  return is_compared ? "Ashlar's paged engine also runs out of memory.\n" : "";
}

}  // namespace

std::string trials_as_text(const std::vector<Trial>& trials, const TrialTableOptions& table) {
  std::vector<std::vector<std::string>> settable;
  std::vector<std::vector<std::string>> others;
  for (const Trial& trial : trials) {
    (can_set(trial.setting, table.allocator_kind) ? settable : others)
        .push_back(trial_cells(trial, table));
  }
  const std::string others_heading = "Ashlar's paged engine";
  const std::string heading = settable.empty() ? others_heading
                              : table.allocator_kind == RecordedAllocator::kPytorch
                                  ? "PyTorch's settings"
                                  : "setting";
  std::vector<Column> columns = {{heading},
                                 {"peak reserved", Align::kRight},
                                 {"× requested", Align::kRight},
                                 {"OOMs", Align::kRight},
                                 {"driver ms", Align::kRight}};
  if (table.has_min_capacity) columns.push_back({"min capacity", Align::kRight});
  Table rows(columns);
  for (std::vector<std::string>& cells : settable) rows.add(std::move(cells));
  if (!settable.empty() && !others.empty()) {
    std::vector<std::string> cells(columns.size());
    cells.front() = others_heading;
    rows.add(std::move(cells));
  }
  for (std::vector<std::string>& cells : others) rows.add(std::move(cells));
  return rows.to_text();
}

std::string paged_as_text(const DeviceRecording& run, const TuneResult& result) {
  if (result.allocator_kind != RecordedAllocator::kPytorch) return {};
  if (!result.paged) return paged_failure_text(result);
  const Trial& paged = result.trials[*result.paged];
  const Trial& recorded = result.trials.front();
  const size_t before = result.baseline_bytes;
  const size_t now = paged.peak_reserved_bytes;
  const size_t difference = std::max(before, now) - std::min(before, now);
  const std::string compared =
      recorded.completes()
          ? fmt::format("{} ({:.1f} %) {} than the recorded setting", format_bytes(difference),
                        100 * static_cast<double>(difference) /
                            static_cast<double>(std::max<size_t>(before, 1)),
                        now <= before ? "less" : "more")
          : "without running out of memory";
  const bool is_worth_it = !recorded.completes() || is_worthwhile(now, before);
  return fmt::format("Ashlar's paged engine{} would have reserved {}, {}.\n{}",
                     paged.setting.conf.empty() ? "" : " with " + paged.setting.conf,
                     format_bytes(now), compared, is_worth_it ? paged_usage(run) + "\n" : "");
}

}  // namespace ashlar
