// SPDX-License-Identifier: Apache-2.0
//
// The front door of the command line: finds the sub-command, parses its options and the
// environment, runs it, and turns what happened into an exit code. The commands themselves are one
// file each; see subcommand.h.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/subcommand.h"
#include "cli/variables.h"
#include "cli/version.h"
#include "config/nearest_name.h"

namespace ashlar {
namespace {

constexpr std::array kSubcommands = {
    &kReport, &kView,   &kTop,  &kReplay, &kTune,  &kExplainOom, &kLeaks,   &kDiff,
    &kGate,   &kExport, &kInfo, &kConfig, &kBench, &kSymmBench,  &kSymmRun, &kDemo};

// A sub-command together with its parser.
struct Prepared {
  CLI::App* parser;
  Run run;
};

std::vector<Prepared> prepare_all(CLI::App& parser);
std::optional<std::string> unknown_command(const std::vector<std::string>& arguments);
std::string usage_message(const CLI::App& parser, const CLI::ParseError& error);
ExitCode run_prepared(const Run& run, Console& console);

ExitCode run(const std::vector<std::string>& arguments, Console& console) {
  CLI::App parser("Memory for accelerators: hand it out, watch it, share it.", "ashlar");
  const std::vector<Prepared> commands = prepare_all(parser);
  if (std::optional<std::string> message = unknown_command(arguments)) {
    console.complain(*message);
    return ExitCode::kInvalidArgument;
  }
  try {
    // CLI11 takes them last first.
    parser.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success& asked) {
    std::ostringstream text;
    parser.exit(asked, text, text);
    console.print(text.str());
    return ExitCode::kDone;
  } catch (const CLI::ParseError& error) {
    console.complain(usage_message(parser, error));
    return ExitCode::kInvalidArgument;
  }
  for (const Prepared& command : commands) {
    if (command.parser->parsed()) return run_prepared(command.run, console);
  }
  return ExitCode::kInvalidArgument;
}

std::vector<Prepared> prepare_all(CLI::App& parser) {
  parser.set_version_flag("--version", fmt::format("ashlar {}", kVersion), "Print the version");
  parser.set_help_flag("-h,--help", "Print this help");
  parser.require_subcommand(1);
  parser.footer(
      fmt::format("Environment:\n{}\n"
                  "Exit codes: 0 done, 1 the answer is \"no\", 2 wrong usage, 3 unreadable input.",
                  variables_help()));

  std::vector<Prepared> commands;
  for (const Subcommand* command : kSubcommands) {
    CLI::App* own =
        parser.add_subcommand(std::string(command->name), std::string(command->summary));
    commands.push_back({.parser = own, .run = command->prepare(*own)});
  }
  return commands;
}

// Looked for before parsing, since CLI11 would call a mistyped command a missing one.
std::optional<std::string> unknown_command(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return "a command is needed; see ashlar --help";
  const std::string& wanted = arguments.front();
  if (wanted.starts_with("-")) return std::nullopt;

  std::vector<std::string_view> known;
  for (const Subcommand* command : kSubcommands) known.push_back(command->name);
  if (std::find(known.begin(), known.end(), wanted) != known.end()) return std::nullopt;
  if (const std::optional<std::string_view> meant = nearest_name(wanted, known)) {
    return fmt::format("there is no command \"{}\"; did you mean {}?", wanted, *meant);
  }
  return fmt::format("there is no command \"{}\" (expected one of {}); see ashlar --help", wanted,
                     fmt::join(known, ", "));
}

// The first argument nobody knows, with the nearest option; otherwise CLI11's own sentence.
std::string usage_message(const CLI::App& parser, const CLI::ParseError& error) {
  const CLI::App* command = &parser;
  for (const CLI::App* chosen : parser.get_subcommands()) command = chosen;
  const std::string help =
      command == &parser ? "ashlar --help" : fmt::format("ashlar {} --help", command->get_name());
  const std::vector<std::string> unknown = parser.remaining(true);
  if (unknown.empty()) return fmt::format("{}; see {}", error.what(), help);

  std::vector<std::string> names;
  for (const CLI::Option* option : command->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  if (const std::optional<std::string_view> meant = nearest_name(unknown.front(), known)) {
    return fmt::format("\"{}\" was not expected; did you mean {}?", unknown.front(), *meant);
  }
  return fmt::format("\"{}\" was not expected; see {}", unknown.front(), help);
}

ExitCode run_prepared(const Run& run, Console& console) {
  const Environment environment = Environment::of_process();
  const Result<sim::Options> sim_options = sim_options_from(environment);
  if (!sim_options.ok()) {
    console.complain(sim_options.status().message());
    return exit_code_for(sim_options.status());
  }
  return run({.console = console, .environment = environment, .sim_options = *sim_options});
}

// The libraries used here throw; nothing of Ashlar below does. No exception leaves the process.
ExitCode run_guarded(const std::vector<std::string>& arguments, Console& console) {
  try {
    const ExitCode code = run(arguments, console);
    if (console.print_error() == 0) return code;
    console.complain(
        fmt::format("the output cannot be written: {}", std::strerror(console.print_error())));
    return ExitCode::kNo;
  } catch (const std::bad_alloc&) {
    console.complain("the host has no memory left");
  } catch (const std::exception& error) {
    console.complain(error.what());
  }
  return ExitCode::kNo;
}

}  // namespace
}  // namespace ashlar

int main(int count, char** values) {
  ashlar::Console console;
  const std::vector<std::string> arguments(values + (count > 0 ? 1 : 0), values + count);
  return static_cast<int>(ashlar::run_guarded(arguments, console));
}
