// SPDX-License-Identifier: Apache-2.0
//
// `ashlar symm-run`: starts the PEs of a program of ashlar::shmem on this machine, and ends them
// together.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

#include "cli/pe_processes.h"
#include "cli/subcommand.h"

namespace ashlar {
namespace {

Run prepare_symm_run(CLI::App& parser);
ExitCode run_command(const Session& session, const PeOptions& options);

}  // namespace

const Subcommand kSymmRun = {
    .name = "symm-run",
    .summary = "Run a program of ashlar::shmem as several processes of this machine",
    .prepare = prepare_symm_run,
};

namespace {

Run prepare_symm_run(CLI::App& parser) {
  auto options = std::make_shared<PeOptions>();
  parser.add_option("-n,--pes", options->pe_count, "How many processes")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  parser.add_option("--heap", options->heap, "Symmetric heap of each, such as 512M");
  parser
      .add_option("--machines", options->machine_count,
                  "As if on so many machines, which UCX connects: to try that")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  parser.prefix_command();  // options behind the program's name are the program's
  parser.footer(
      "The program and its arguments follow the options: ashlar symm-run -n 4 ./program 10\n"
      "Signals that end this command are handed on. When a process fails, the others are ended,\n"
      "and the exit status is that of the first: its own, or 128 and the signal's number.");
  return [options, &parser](const Session& session) {
    options->command = parser.remaining();
    return run_command(session, *options);
  };
}

ExitCode run_command(const Session& session, const PeOptions& options) {
  if (options.command.empty() || options.command.front().starts_with("-")) {
    session.console.complain(
        options.command.empty() ? "symm-run: a program is needed; see ashlar symm-run --help"
                                : fmt::format("\"{}\" was not expected; see ashlar symm-run --help",
                                              options.command.front()));
    return ExitCode::kInvalidArgument;
  }
  const Result<PeEnd> end = run_pes(options, session.environment);
  if (!end.ok()) return complain(end.status(), session);
  if (!end->sentence.empty()) session.console.complain("symm-run: " + end->sentence);
  return static_cast<ExitCode>(end->status);
}

}  // namespace
}  // namespace ashlar
