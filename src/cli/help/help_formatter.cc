// SPDX-License-Identifier: Apache-2.0
//
// Overrides the parts of CLI11's formatter whose lines can exceed 80 columns.
#include "cli/help/help_formatter.h"

#include <fmt/format.h>

#include "cli/help/command_info.h"
#include "cli/terminal/style.h"

namespace ashlar {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kOptionWidth = 24;
constexpr size_t kCommandWidth = 12;

// Formats an entry: "  --top N                 Number of stacks to show". A long description
// continues in the same column; a name that is too long gets its own line.
std::string entry_text(const std::string& name, std::string_view description, size_t name_width) {
  const std::string indent(name_width + 2, ' ');
  std::string text;
  std::string line = fmt::format("  {:<{}}", name, name_width);
  if (name.size() >= name_width) {
    text = fmt::format("  {}\n", name);
    line = indent;
  }
  for (const std::string& word : CLI::detail::split(std::string(description), ' ')) {
    if (line.size() > indent.size() && line.size() + 1 + word.size() > kWidth) {
      text += line + "\n";
      line = indent;
    }
    line += (line.size() > indent.size() ? " " : "") + word;
  }
  return text + line + "\n";
}

}  // namespace

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  const bool has_commands = app->get_parent() == nullptr;
  return fmt::format("\n{} {} {}\n", bold("Usage:"), name.empty() ? app->get_name() : name,
                     has_commands ? "COMMAND [OPTIONS] ..." : usage_text(describe_command(*app)));
}

std::string HelpFormatter::make_group(std::string group, bool is_positional,
                                      std::vector<const CLI::Option*> options) const {
  std::string text = fmt::format("\n{}\n", bold((is_positional ? "Arguments" : group) + ":"));
  for (const CLI::Option* option : options) text += make_option(option, is_positional);
  return text;
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  const OptionInfo info = describe_option(*option);
  std::string name = fmt::format("{}", fmt::join(info.names, ", "));
  if (!is_positional && !info.is_flag()) name += " " + value_text(info);
  std::string description = info.description;
  if (!info.default_value.empty()) description += fmt::format(" [{}]", info.default_value);
  return entry_text(name, description, kOptionWidth);
}

std::string HelpFormatter::make_subcommands(const CLI::App* app, CLI::AppFormatMode) const {
  std::string text;
  std::string group;
  for (const CLI::App* command : app->get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group() != group)
      text += fmt::format("\n{}\n", bold(command->get_group() + ":"));
    group = command->get_group();
    text += make_subcommand(command);
  }
  return text;
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return entry_text(command->get_name(), command->get_description(), kCommandWidth);
}

}  // namespace ashlar
