// One row for each trial.
#include "cli/settings_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "cli/table.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

std::string setting_as_text(const Setting& setting) {
  const std::string conf = setting.conf.empty() ? "(defaults)" : setting.conf;
  return setting.is_recorded ? conf + ", as recorded" : conf;
}

}  // namespace

std::string trials_as_text(const std::vector<Trial>& trials, const TrialTable& table) {
  std::vector<Column> columns = {{"setting"},
                                 {"peak reserved", Align::kRight},
                                 {"× requested", Align::kRight},
                                 {"OOMs", Align::kRight},
                                 {"driver ms", Align::kRight}};
  if (table.has_min_capacity) columns.push_back({"least capacity", Align::kRight});
  const auto bound = static_cast<double>(std::max<size_t>(table.lower_bound_bytes, 1));
  Table rows(columns);
  for (const Trial& trial : trials) {
    std::vector<std::string> cells = {
        setting_as_text(trial.setting), format_bytes(trial.peak_reserved_bytes),
        fmt::format("{:.3f}", static_cast<double>(trial.peak_reserved_bytes) / bound),
        group_digits(trial.oom_count), fmt::format("{:.1f}", trial.driver_us / 1000)};
    if (table.has_min_capacity) {
      cells.push_back(trial.min_capacity_bytes ? format_bytes(*trial.min_capacity_bytes) : "none");
    }
    rows.add(std::move(cells));
  }
  return rows.to_text();
}

Json trial_as_json(const Trial& trial) {
  const auto& least = trial.min_capacity_bytes;
  return {{"engine", engine_of(trial.setting.options)},
          {"conf", trial.setting.conf},
          {"is_recorded", trial.setting.is_recorded},
          {"peak_reserved_bytes", trial.peak_reserved_bytes},
          {"driver_us", trial.driver_us},
          {"ooms", trial.oom_count},
          {"min_capacity_bytes", least ? Json(*least) : Json()}};
}

// In quotes, since a list of divisions has characters that shells take for their own.
std::string line_to_paste(const Setting& setting) {
  return fmt::format("PYTORCH_CUDA_ALLOC_CONF=\"{}\"", setting.conf);
}

}  // namespace ashlar
