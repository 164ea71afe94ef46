// SPDX-License-Identifier: Apache-2.0
//
// Entry point of the command line tool: finds the sub-command, parses its options and the
// environment, runs it, and returns its exit code. See subcommand.h.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/help/help_formatter.h"
#include "cli/help/man_page.h"
#include "cli/subcommand.h"
#include "config/nearest_name.h"

namespace ashlar {
namespace {

struct CommandGroup {
  std::string_view heading;
  std::vector<const Subcommand*> commands;
};

const std::vector<CommandGroup>& command_groups() {
  static const std::vector<CommandGroup> groups = {
      {"Recordings",
       {&kReport, &kExplainOom, &kLeaks, &kAnnotateSource, &kView, &kWhatIf, &kTune, &kReplay,
        &kDiff, &kGate, &kExport}},
      {"Running processes", {&kTop}},
      {"Devices and allocators", {&kInfo, &kConfig, &kBench, &kDemo}},
      {"Symmetric memory", {&kRun, &kSymmBench}},
      {"Help", {&kHelp, &kCompletion}},
  };
  return groups;
}

// A sub-command with its parser.
struct PreparedCommand {
  const Subcommand* command;
  CLI::App* parser;
  CommandFunction run;
};

std::vector<PreparedCommand> prepare_all(CLI::App& parser);
std::optional<std::string> unknown_command_message(const std::vector<std::string>& arguments);
std::vector<std::string> without_separator(const CLI::App& parser,
                                           std::vector<std::string> arguments);
std::string usage_message(const CLI::App& parser, const CLI::ParseError& error);
ExitCode run_prepared(const PreparedCommand& command, const Environment& environment,
                      Console& console);

ExitCode run(const std::vector<std::string>& arguments, const Environment& environment,
             Console& console) {
  CLI::App parser("Analyze, replay and watch the memory of accelerators.", "ashlar");
  const std::vector<PreparedCommand> commands = prepare_all(parser);
  if (std::optional<std::string> message = unknown_command_message(arguments)) {
    console.print_message(*message);
    return ExitCode::kInvalidArgument;
  }
  try {
    std::vector<std::string> words = without_separator(parser, arguments);
    std::reverse(words.begin(), words.end());  // as CLI11 expects
    parser.parse(std::move(words));
  } catch (const CLI::CallForVersion&) {
    console.print(parser.version() + "\n");
    return ExitCode::kSuccess;
  } catch (const CLI::Success&) {
    const std::vector<CLI::App*> chosen = parser.get_subcommands();
    console.print(chosen.empty() ? parser.help() : chosen.front()->help("ashlar"));
    return ExitCode::kSuccess;
  } catch (const CLI::ParseError& error) {
    console.print_message(usage_message(parser, error));
    return ExitCode::kInvalidArgument;
  }
  for (const PreparedCommand& each : commands) {
    if (each.parser->parsed()) return run_prepared(each, environment, console);
  }
  return ExitCode::kInvalidArgument;
}

std::vector<PreparedCommand> prepare_all(CLI::App& parser) {
  parser.formatter(std::make_shared<HelpFormatter>());
  parser.set_version_flag("--version", fmt::format("ashlar {}", kToolVersion), "Print the version");
  parser.set_help_flag("-h,--help", "Print this help");
  parser.require_subcommand(1);

  std::vector<PreparedCommand> commands;
  for (const CommandGroup& group : command_groups()) {
    for (const Subcommand* command : group.commands) {
      CLI::App* subparser =
          parser.add_subcommand(std::string(command->name), std::string(command->summary));
      subparser->group(std::string(group.heading));
      commands.push_back(
          {.command = command, .parser = subparser, .run = command->prepare(*subparser)});
    }
  }
  // The footer is set last, because sub-commands inherit the footer that is set when they are
  // added.
  parser.footer(
      fmt::format("See \"ashlar help COMMAND\", and \"ashlar help environment\" for "
                  "variables.\nExit code: {}.",
                  kExitCodes));
  return commands;
}

// Returns an error message if the command is missing or unknown. Checked before parsing, because
// CLI11 reports a mistyped command as a missing command.
std::optional<std::string> unknown_command_message(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return "missing command; see ashlar --help";
  const std::string& wanted = arguments.front();
  if (wanted.starts_with("-")) return std::nullopt;

  std::vector<std::string_view> known;
  for (const CommandGroup& group : command_groups()) {
    for (const Subcommand* command : group.commands) known.push_back(command->name);
  }
  const bool is_known = std::find(known.begin(), known.end(), wanted) != known.end();
  if (is_known || wanted == kOldRunName) return std::nullopt;
  if (const std::optional<std::string_view> nearest = nearest_name(wanted, known)) {
    return fmt::format("unknown command \"{}\"; did you mean {}?", wanted, *nearest);
  }
  return fmt::format("unknown command \"{}\" (expected one of {}); see ashlar --help", wanted,
                     fmt::join(known, ", "));
}

// Removes the "--" between the options of a command and the program that it runs. CLI11 would take
// the words after "--" for arguments of `ashlar` itself.
std::vector<std::string> without_separator(const CLI::App& parser,
                                           std::vector<std::string> arguments) {
  const std::vector<const CLI::App*> named = parser.get_subcommands(
      [&arguments](const CLI::App* command) { return command->check_name(arguments.front()); });
  if (named.empty() || !named.front()->get_prefix_command()) return arguments;
  for (size_t i = 1; i < arguments.size() && arguments[i].starts_with("-"); ++i) {
    if (arguments[i] == "--") {
      arguments.erase(arguments.begin() + static_cast<ptrdiff_t>(i));
      break;
    }
    const CLI::Option* option = named.front()->get_option_no_throw(arguments[i]);
    if (option != nullptr && option->get_type_size() > 0) ++i;  // skips the value
  }
  return arguments;
}

// Names the first unknown argument and the nearest option. If no argument is unknown, returns
// CLI11's message.
std::string usage_message(const CLI::App& parser, const CLI::ParseError& error) {
  const CLI::App* command = &parser;
  for (const CLI::App* chosen : parser.get_subcommands()) command = chosen;
  const std::string help =
      command == &parser ? "ashlar --help" : fmt::format("ashlar help {}", command->get_name());
  const std::vector<std::string> unknown = parser.remaining(true);
  if (unknown.empty()) return fmt::format("{}; see {}", error.what(), help);

  std::vector<std::string> names;
  for (const CLI::Option* option : command->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  if (const std::optional<std::string_view> nearest = nearest_name(unknown.front(), known)) {
    return fmt::format("unexpected argument \"{}\"; did you mean {}?", unknown.front(), *nearest);
  }
  return fmt::format("unexpected argument \"{}\"; see {}", unknown.front(), help);
}

ExitCode run_prepared(const PreparedCommand& command, const Environment& environment,
                      Console& console) {
  if (command.command->ignores_environment) {
    const sim::Options defaults;
    return command.run({.console = console, .environment = environment, .sim_options = defaults});
  }
  const Result<sim::Options> sim_options = sim_options_from(environment);
  if (!sim_options.ok()) {
    console.print_message(sim_options.status().message());
    return exit_code_for(sim_options.status());
  }
  return command.run({.console = console, .environment = environment, .sim_options = *sim_options});
}

// Reports exceptions of CLI11 and the standard library as errors.
ExitCode run_guarded(const std::vector<std::string>& arguments, const Environment& environment,
                     Console& console) {
  try {
    const ExitCode code = run(arguments, environment, console);
    if (console.output_error() == 0) return code;
    console.print_message(
        fmt::format("cannot write the output: {}", std::strerror(console.output_error())));
    return ExitCode::kFailure;
  } catch (const std::bad_alloc&) {
    console.print_message("out of host memory");
  } catch (const std::exception& error) {
    console.print_message(error.what());
  }
  return ExitCode::kFailure;
}

}  // namespace
}  // namespace ashlar

int main(int count, char** values) {
  const ashlar::Environment environment = ashlar::Environment::of_process();
  ashlar::Console console(environment);
  const std::vector<std::string> arguments(values + (count > 0 ? 1 : 0), values + count);
  return static_cast<int>(ashlar::run_guarded(arguments, environment, console));
}
