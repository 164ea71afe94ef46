// SPDX-License-Identifier: Apache-2.0
//
// Parses CLI11's descriptions: CLI11 gives the type, range and choices of an option as one string,
// such as "TEXT:{end,peak}".
#include "cli/help/command_info.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <string_view>

namespace ashlar {
namespace {

// Returns the choices in "TEXT:{end,peak}"; empty if there is no such list.
std::vector<std::string> parse_choices(std::string_view type_name) {
  const size_t begin = type_name.find('{');
  const size_t end = type_name.find('}');
  if (begin == std::string_view::npos || end == std::string_view::npos) return {};
  return CLI::detail::split(std::string(type_name.substr(begin + 1, end - begin - 1)), ',');
}

std::string value_name_of(const CLI::Option& option) {
  if (option.get_type_size() == 0) return {};
  const std::string type_name = option.get_type_name();
  const std::string first = type_name.substr(0, type_name.find(':'));
  return first == "UINT" || first == "INT" || first == "FLOAT" ? "N" : first;
}

}  // namespace

OptionInfo describe_option(const CLI::Option& option) {
  OptionInfo info;
  info.is_positional = option.get_positional();
  if (info.is_positional) {
    info.names.push_back(option.get_name(true));
  } else {
    for (const std::string& name : option.get_snames()) info.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) info.names.push_back("--" + name);
  }
  info.value_name = value_name_of(option);
  info.choices = parse_choices(option.get_type_name());
  info.default_value = option.get_default_str();
  info.description = option.get_description();
  info.is_required = option.get_required();
  info.is_repeatable = option.get_expected_max() >= CLI::detail::expected_max_vector_size;
  return info;
}

CommandInfo describe_command(const CLI::App& command) {
  CommandInfo info;
  info.name = command.get_name();
  info.summary = command.get_description();
  info.notes = command.get_footer();
  info.runs_program = command.get_prefix_command();
  for (const CLI::Option* option : command.get_options()) {
    OptionInfo described = describe_option(*option);
    (described.is_positional ? info.arguments : info.options).push_back(std::move(described));
  }
  return info;
}

std::vector<CommandInfo> describe_commands(const CLI::App& root) {
  std::vector<CommandInfo> commands;
  for (const CLI::App* command : root.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(describe_command(*command));
  }
  return commands;
}

std::string value_text(const OptionInfo& option) {
  if (option.choices.empty()) return option.value_name;
  return fmt::format("{}", fmt::join(option.choices, "|"));
}

std::string usage_text(const CommandInfo& command) {
  std::string usage = "[OPTIONS]";
  for (const OptionInfo& argument : command.arguments) {
    const std::string name = argument.names.front() + (argument.is_repeatable ? "..." : "");
    usage += argument.is_required ? " " + name : fmt::format(" [{}]", name);
  }
  if (command.runs_program) usage += " PROGRAM [ARGUMENT...]";
  return usage;
}

}  // namespace ashlar
