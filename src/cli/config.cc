// SPDX-License-Identifier: Apache-2.0
//
// `ashlar config`: lists the allocator options with their current values; --check parses a settings
// string instead. Prints tables or one JSON object.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cli/subcommand.h"
#include "cli/terminal/json_output.h"
#include "cli/terminal/style.h"
#include "cli/terminal/table.h"
#include "config/allocator_options.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

struct ConfigArguments {
  bool json = false;
  std::optional<std::string> check{};
};

// The allocator options that the environment selects.
struct CurrentSettings {
  AllocatorOptions options;
  const EnvironmentVariable* variable = nullptr;  // the variable that sets `options`; null: none
};

CommandFunction prepare_config(CLI::App& parser);
ExitCode run_config(const ConfigArguments& arguments, const Session& session);
ExitCode run_check(const ConfigArguments& arguments, const Session& session);
std::string table_as_json(const CurrentSettings& current, const Environment& environment);
std::string table_as_text(const CurrentSettings& current, const Environment& environment);
std::string values_as_json(const AllocatorOptions& options);
std::string values_as_text(const AllocatorOptions& options);

}  // namespace

const Subcommand kConfig = {
    .name = "config",
    .summary = "List allocator options, or check a settings string",
    .prepare = prepare_config,
};

namespace {

CommandFunction prepare_config(CLI::App& parser) {
  auto arguments = std::make_shared<ConfigArguments>();
  add_json_flag(parser, arguments->json);
  parser
      .add_option("--check", arguments->check,
                  "Parse these settings, such as \"expandable_segments:True\"")
      ->type_name("SETTINGS");
  return [arguments](const Session& session) {
    return arguments->check ? run_check(*arguments, session) : run_config(*arguments, session);
  };
}

ExitCode run_config(const ConfigArguments& arguments, const Session& session) {
  const Result<AllocatorOptions> options = allocator_options_from(session.environment);
  if (!options.ok()) return print_failure(options.status(), session);
  const CurrentSettings current = {.options = *options,
                                   .variable = allocator_variable_in(session.environment)};
  session.console.print(arguments.json ? table_as_json(current, session.environment)
                                       : table_as_text(current, session.environment));
  return ExitCode::kSuccess;
}

ExitCode run_check(const ConfigArguments& arguments, const Session& session) {
  const Result<AllocatorOptions> options = parse_allocator_options(*arguments.check);
  if (!options.ok()) return print_failure(options.status(), session);
  session.console.print(arguments.json ? values_as_json(*options) : values_as_text(*options));
  return ExitCode::kSuccess;
}

Json text_or_null(std::string_view text) { return text.empty() ? Json() : Json(text); }

bool is_used(const EnvironmentVariable& row, const CurrentSettings& current,
             const Environment& environment) {
  if (row.scope == VariableScope::kAllocator) return &row == current.variable;
  return environment.value(row.name) && variable_for_option(row.option, environment) == &row;
}

std::string table_as_json(const CurrentSettings& current, const Environment& environment) {
  Json options = Json::array();
  for (const OptionRow& row : allocator_option_table()) {
    const std::string value = row.print(row, current.options);
    const EnvironmentVariable* variable = variable_for_option(row.name, environment);
    const bool is_set = variable != nullptr && value != row.default_text;
    options.push_back({
        {"name", row.name},
        {"alias", text_or_null(row.alias)},
        {"type", row.type},
        {"unit", text_or_null(row.unit)},
        {"default", row.default_text},
        {"range", row.range},
        {"value", value},
        {"set_by", is_set ? Json(variable->name) : Json()},
        {"help", row.help},
    });
  }
  Json variables = Json::array();
  for (const EnvironmentVariable& row : environment_variables()) {
    if (!is_for_allocators(row)) continue;
    variables.push_back({{"name", row.name},
                         {"value", text_or_null(environment.value(row.name).value_or(""))},
                         {"is_used", is_used(row, current, environment)}});
  }
  return format_json({{"conf", format_allocator_options(current.options)},
                      {"options", options},
                      {"variables", variables}});
}

// Describes an option in the form "now 512 (ASHLAR_ALLOC_CONF); default off; range 1–1048576 or off
// (MiB)".
std::string option_facts(const OptionRow& row, const CurrentSettings& current,
                         const Environment& environment) {
  const std::string value = row.print(row, current.options);
  const EnvironmentVariable* variable = variable_for_option(row.name, environment);
  std::string facts;
  if (variable != nullptr && value != row.default_text) {
    facts = fmt::format("now {} ({}); ", value, variable->name);
  }
  facts += fmt::format("default {}; range {}", row.default_text, row.range);
  return row.unit.empty() ? facts : fmt::format("{} ({})", facts, row.unit);
}

std::string variables_as_text(const CurrentSettings& current, const Environment& environment) {
  Table table({{}, {}, {}});
  for (const EnvironmentVariable& row : environment_variables()) {
    if (!is_for_allocators(row)) continue;
    const std::string_view value = environment.value(row.name).value_or("-");
    const std::string_view use = is_used(row, current, environment) ? "used"
                                 : environment.value(row.name)      ? "not used"
                                                                    : "";
    table.add({std::string(row.name), std::string(use), std::string(value)});
  }
  return table.to_text();
}

std::string table_as_text(const CurrentSettings& current, const Environment& environment) {
  Table table({{}, {}});
  for (const OptionRow& row : allocator_option_table()) {
    table.add({std::string(row.name), option_facts(row, current, environment)});
    table.add({row.alias.empty() ? "" : fmt::format("or {}", row.alias), std::string(row.help)});
  }
  return fmt::format("{}\n{}\n{}\n{}",
                     bold("Allocator options, written as \"name:value,name:value\""),
                     table.to_text(), bold("Environment variables, in order of precedence"),
                     variables_as_text(current, environment));
}

std::string values_as_json(const AllocatorOptions& options) {
  Json values = Json::object();
  for (const OptionRow& row : allocator_option_table()) {
    values[std::string(row.name)] = row.print(row, options);
  }
  return format_json({{"conf", format_allocator_options(options)}, {"values", values}});
}

std::string values_as_text(const AllocatorOptions& options) {
  Table table({{"option"}, {"default"}, {"value"}});
  for (const OptionRow& row : allocator_option_table()) {
    table.add({std::string(row.name), std::string(row.default_text), row.print(row, options)});
  }
  const std::string settings = format_allocator_options(options);
  return fmt::format("{}\n\n{}",
                     settings.empty() ? "All options have their default values." : settings,
                     table.to_text());
}

}  // namespace
}  // namespace ashlar
