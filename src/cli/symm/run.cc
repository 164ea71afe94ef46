// SPDX-License-Identifier: Apache-2.0
//
// `ashlar run`: runs a program as several ranks on this machine. The ranks are processing elements
// (PEs) in OpenSHMEM programs. `symm-run` is an older name of the command.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

#include "cli/subcommand.h"
#include "cli/symm/pe_launcher.h"

namespace ashlar {
namespace {

CommandFunction prepare_run_ranks(CLI::App& parser);
ExitCode run_ranks(const Session& session, const PeOptions& options);

}  // namespace

const Subcommand kRun = {
    .name = "run",
    .summary = "Run a program as several ranks on this machine",
    .prepare = prepare_run_ranks,
};

namespace {

CommandFunction prepare_run_ranks(CLI::App& parser) {
  parser.alias(kOldRunName);
  auto options = std::make_shared<PeOptions>();
  parser.add_option("-n,--ranks,--pes", options->pe_count, "Number of processes")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  parser.add_option("--heap", options->heap, "OpenSHMEM: symmetric heap per process, such as 512M")
      ->type_name("SIZE");
  parser
      .add_option("--machines", options->machine_count,
                  "OpenSHMEM: simulate this many machines, connected by UCX")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  parser.prefix_command();  // options after the program's name belong to the program
  parser.footer(
      "Example: ashlar run -n 4 -- ./program 10\n"
      "The program uses Group::join_from_environment, ashlar.symm or OpenSHMEM.\n"
      "Signals are forwarded. When one process fails, the others are terminated.\n"
      "The exit status is that of the first failed process, or 128 + its signal.");
  return [options, &parser](const Session& session) {
    options->command = parser.remaining();
    return run_ranks(session, *options);
  };
}

ExitCode run_ranks(const Session& session, const PeOptions& options) {
  if (options.command.empty() || options.command.front().starts_with("-")) {
    session.console.print_message(
        options.command.empty() ? "run: missing program; see ashlar help run"
                                : fmt::format("unexpected argument \"{}\"; see ashlar help run",
                                              options.command.front()));
    return ExitCode::kInvalidArgument;
  }
  const Result<PeResult> end = run_pes(options, session.environment);
  if (!end.ok()) return print_failure(end.status(), session);
  if (!end->message.empty()) session.console.print_message("run: " + end->message);
  return static_cast<ExitCode>(end->status);
}

}  // namespace
}  // namespace ashlar
