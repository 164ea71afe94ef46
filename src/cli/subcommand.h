// SPDX-License-Identifier: Apache-2.0
//
// The interface between main.cc and the sub-commands. To add a sub-command, write its file, declare
// its constant below, and list it in the table of main.cc.
#pragma once

#include <functional>
#include <string_view>

#include "ashlar/sim.h"
#include "ashlar/status.h"
#include "cli/terminal/console.h"
#include "config/environment.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's namespace
class App;
}

namespace ashlar {

// The build defines ASHLAR_VERSION.
inline constexpr std::string_view kToolVersion = ASHLAR_VERSION;

// Exit status of the process. Scripts depend on these numbers.
enum class ExitCode {
  kSuccess = 0,
  kFailure = 1,          // a check failed, or the command could not do its work
  kInvalidArgument = 2,  // a wrong command, option, or environment variable
  kUnreadableInput = 3,  // a file cannot be read or is malformed
};

// Returns the exit code for an error. REQUIRES: `failure` is not ok.
inline ExitCode exit_code_for(const Status& failure) {
  if (failure.is(StatusKind::kInvalidArgument)) return ExitCode::kInvalidArgument;
  if (failure.is(StatusKind::kFormat)) return ExitCode::kUnreadableInput;
  return ExitCode::kFailure;
}

// The context in which a command runs. `sim_options` are parsed from `environment`, unless
// Subcommand::ignores_environment is set.
struct Session {
  Console& console;
  const Environment& environment;
  const sim::Options& sim_options;
};

// Prints the message to standard error. Returns the matching exit code.
inline ExitCode print_failure(const Status& failure, const Session& session) {
  session.console.print_message(failure.message());
  return exit_code_for(failure);
}

using CommandFunction = std::function<ExitCode(const Session& session)>;

struct Subcommand {
  std::string_view name;
  std::string_view summary;  // one line, for `ashlar --help`
  // Declares the command's options on `parser` and returns the function to run after parsing.
  // The function shares ownership of the parsed arguments.
  CommandFunction (*prepare)(CLI::App& parser);
  // If true, the command runs even if an environment variable is invalid, and
  // `Session::sim_options` has the defaults.
  bool ignores_environment = false;
};

// A name of kRun that scripts of earlier versions use.
inline constexpr const char* kOldRunName = "symm-run";

extern const Subcommand kInfo;
extern const Subcommand kConfig;
extern const Subcommand kBench;
extern const Subcommand kSymmBench;
extern const Subcommand kRun;
extern const Subcommand kDemo;
extern const Subcommand kExport;
extern const Subcommand kReplay;
extern const Subcommand kReport;
extern const Subcommand kLeaks;
extern const Subcommand kAnnotateSource;
extern const Subcommand kDiff;
extern const Subcommand kGate;
extern const Subcommand kTune;
extern const Subcommand kExplainOom;
extern const Subcommand kWhatIf;
extern const Subcommand kView;
extern const Subcommand kTop;
extern const Subcommand kHelp;
extern const Subcommand kCompletion;

}  // namespace ashlar
