// SPDX-License-Identifier: Apache-2.0
//
// What a sub-command is: a row of the table in main.cc. To add one, write its file, declare its
// row here, and list it there.
#pragma once

#include <functional>
#include <string_view>

#include "ashlar/sim.h"
#include "cli/console.h"
#include "cli/exit_code.h"
#include "config/environment.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the name is theirs
class App;
}

namespace ashlar {

// What a command finds when it runs: arguments and environment are parsed and in order.
struct Session {
  Console& console;
  const Environment& environment;
  const sim::Options& sim_options;
};

// Prints the message, and returns the code that goes with it.
inline ExitCode complain(const Status& failure, const Session& session) {
  session.console.complain(failure.message());
  return exit_code_for(failure);
}

using Run = std::function<ExitCode(const Session& session)>;

struct Subcommand {
  std::string_view name;
  std::string_view summary;  // one line, for `ashlar --help`
  // Declares the command's own options on `parser`, and returns what to run once they are parsed.
  Run (*prepare)(CLI::App& parser);
};

extern const Subcommand kInfo;
extern const Subcommand kConfig;
extern const Subcommand kBench;
extern const Subcommand kSymmBench;
extern const Subcommand kSymmRun;
extern const Subcommand kDemo;
extern const Subcommand kExport;
extern const Subcommand kReplay;
extern const Subcommand kReport;
extern const Subcommand kLeaks;
extern const Subcommand kDiff;
extern const Subcommand kGate;
extern const Subcommand kTune;
extern const Subcommand kExplainOom;
extern const Subcommand kView;
extern const Subcommand kTop;

}  // namespace ashlar
