// SPDX-License-Identifier: Apache-2.0
//
// Parses, formats and checks options according to the rows of the option table.
#include "config/allocator_options.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "config/nearest_name.h"

namespace ashlar {
namespace {

// An assignment and its row of the option table.
struct Setting {
  const OptionRow* row;
  OptionAssignment given;
};

Result<std::vector<Setting>> parse_settings(std::string_view given);
bool sets_option(const std::vector<Setting>& settings, std::string_view option);
void reset_as_pytorch_does(AllocatorOptions& options);
Result<AllocatorOptions> print_and_parse(const OptionRow& row, const AllocatorOptions& options);

}  // namespace

Result<AllocatorOptions> parse_allocator_options(std::string_view text,
                                                 const AllocatorOptions& base) {
  const Result<std::vector<Setting>> settings = parse_settings(text);
  if (!settings.ok()) return settings.status();
  AllocatorOptions options = base;
  if (base.pytorch_compatible) reset_as_pytorch_does(options);
  for (const Setting& setting : *settings) {
    Status status = setting.row->set(*setting.row, setting.given, options);
    if (!status.ok()) return status;
  }
  // If the text sets compat:pytorch but no engine, selects the classic engine, which has PyTorch's
  // policy.
  const bool is_compat_set = options.pytorch_compatible && sets_option(*settings, "compat");
  const bool is_async_set =
      options.engine == EngineKind::kAsync && sets_option(*settings, "backend");
  if (is_compat_set && !is_async_set && !sets_option(*settings, "engine")) {
    options.engine = EngineKind::kClassic;
  }
  if (Status status = check_allocator_options(options); !status.ok()) return status;
  return options;
}

std::string format_allocator_options(const AllocatorOptions& options) {
  std::string text;
  for (const OptionRow& row : allocator_option_table()) {
    const std::string value = row.print(row, options);
    // Without an engine in the text, compat:pytorch would select the classic engine.
    const bool is_always_printed = row.name == "engine" && options.pytorch_compatible;
    if (value == row.default_text && !is_always_printed) continue;
    if (!text.empty()) text += ",";
    text.append(row.name).append(":").append(value);
  }
  return text;
}

// Checks that parsing the printed form of each option succeeds and changes no option.
Status check_allocator_options(const AllocatorOptions& options) {
  for (const OptionRow& row : allocator_option_table()) {
    const Result<AllocatorOptions> parsed = print_and_parse(row, options);
    if (!parsed.ok()) return parsed.status();
  }
  // This loop runs after the loop above has rejected NaN, because options that contain a NaN never
  // compare equal.
  for (const OptionRow& row : allocator_option_table()) {
    if (*print_and_parse(row, options) == options) continue;
    return Status::invalid_argument(
        text(row.name, ": this value cannot be written (expected ", row.range, ")"));
  }
  return Status();
}

namespace {

Result<AllocatorOptions> print_and_parse(const OptionRow& row, const AllocatorOptions& options) {
  const std::string setting = text(row.name, ":", row.print(row, options));
  const Result<std::vector<OptionAssignment>> read = parse_option_text(setting);
  if (!read.ok()) return read.status();
  AllocatorOptions parsed = options;
  for (const OptionAssignment& given : *read) {
    if (Status status = row.set(row, given, parsed); !status.ok()) return status;
  }
  return parsed;
}

Result<const OptionRow*> find_row(std::string_view name) {
  std::vector<std::string_view> known;
  for (const OptionRow& row : allocator_option_table()) {
    if (name == row.name || (name == row.alias && !row.alias.empty())) return &row;
    known.push_back(row.name);
    if (!row.alias.empty()) known.push_back(row.alias);
  }
  constexpr size_t kLongestMistypedName = 100;  // nearest_name is slow for long names
  const std::string problem = text(excerpt(name), ": no such option");
  const std::optional<std::string_view> suggestion =
      name.size() > kLongestMistypedName ? std::nullopt : nearest_name(name, known);
  if (suggestion)
    return Status::invalid_argument(text(problem, "; did you mean ", *suggestion, "?"));
  return Status::invalid_argument(text(problem, " (ashlar config lists all)"));
}

// Returns the settings in the order in which to apply them: first those on which the checks of
// other options depend.
Result<std::vector<Setting>> parse_settings(std::string_view given) {
  Result<std::vector<OptionAssignment>> assignments = parse_option_text(given);
  if (!assignments.ok()) return assignments.status();
  std::vector<Setting> settings;
  for (OptionAssignment& each : *assignments) {
    const Result<const OptionRow*> row = find_row(each.name);
    if (!row.ok()) return row.status();
    const auto is_same = [&](const Setting& earlier) { return earlier.row == *row; };
    if (std::any_of(settings.begin(), settings.end(), is_same)) {
      return Status::invalid_argument(
          text(each.name, ": ", in_quotes(each.value), " is its second value (expected one)"));
    }
    settings.push_back({.row = *row, .given = std::move(each)});
  }
  std::stable_partition(settings.begin(), settings.end(), [](const Setting& setting) {
    return setting.row->name == "large_segment_size_mb" || setting.row->name == "compat";
  });
  return settings;
}

bool sets_option(const std::vector<Setting>& settings, std::string_view option) {
  return std::any_of(settings.begin(), settings.end(),
                     [&](const Setting& setting) { return setting.row->name == option; });
}

void reset_as_pytorch_does(AllocatorOptions& options) {
  const AllocatorOptions defaults;
  options.max_split_bytes = defaults.max_split_bytes;
  options.max_non_split_rounding_bytes = defaults.max_non_split_rounding_bytes;
  options.roundup_power2_divisions = defaults.roundup_power2_divisions;
  options.garbage_collection_threshold = defaults.garbage_collection_threshold;
}

}  // namespace
}  // namespace ashlar
