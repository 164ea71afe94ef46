// SPDX-License-Identifier: Apache-2.0
//
// The commands and options that are declared with CLI11, as plain data. The help texts, the man
// page and the shell completions are generated from this data.
#pragma once

#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's namespace
class App;
class Option;
}  // namespace CLI

namespace ashlar {

struct OptionInfo {
  std::vector<std::string> names{};    // "-o", "--output"; for a positional argument: "FILE"
  std::string value_name{};            // "SIZE"; empty: a flag
  std::vector<std::string> choices{};  // empty: any value
  std::string default_value{};         // empty: no default
  std::string description{};
  bool is_positional = false;
  bool is_required = false;
  bool is_repeatable = false;

  bool is_flag() const { return value_name.empty() && choices.empty(); }
  bool takes_file() const { return value_name == "FILE"; }
};

struct CommandInfo {
  std::string name{};
  std::string summary{};
  std::string notes{};                  // the text after the options; may have several lines
  std::vector<OptionInfo> arguments{};  // positional arguments
  std::vector<OptionInfo> options{};
  bool runs_program = false;  // a program and its arguments follow the options
};

OptionInfo describe_option(const CLI::Option& option);
CommandInfo describe_command(const CLI::App& command);
// Returns all sub-commands of `root`, in the order of their declaration.
std::vector<CommandInfo> describe_commands(const CLI::App& root);

// Returns the value of an option for help: "end|peak", "SIZE", or empty for a flag.
std::string value_text(const OptionInfo& option);
// Returns the arguments of a command, such as "[OPTIONS] FILE" in "Usage: ashlar report [OPTIONS]
// FILE".
std::string usage_text(const CommandInfo& command);

}  // namespace ashlar
