// SPDX-License-Identifier: Apache-2.0
//
// `ashlar symm-run`: runs an OpenSHMEM program as several processing elements (PEs) on this
// machine.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

#include "cli/subcommand.h"
#include "cli/symm/pe_launcher.h"

namespace ashlar {
namespace {

CommandFunction prepare_symm_run(CLI::App& parser);
ExitCode run_symm_run(const Session& session, const PeOptions& options);

}  // namespace

const Subcommand kSymmRun = {
    .name = "symm-run",
    .summary = "Run an OpenSHMEM program as several processes on this machine",
    .prepare = prepare_symm_run,
};

namespace {

CommandFunction prepare_symm_run(CLI::App& parser) {
  auto options = std::make_shared<PeOptions>();
  parser.add_option("-n,--pes", options->pe_count, "Number of processes")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  parser.add_option("--heap", options->heap, "Symmetric heap per process, such as 512M")
      ->type_name("SIZE");
  parser
      .add_option("--machines", options->machine_count,
                  "Simulate this many machines, connected by UCX")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  parser.prefix_command();  // options after the program's name belong to the program
  parser.footer(
      "Example: ashlar symm-run -n 4 ./program 10\n"
      "Signals are forwarded. When one process fails, the others are terminated.\n"
      "The exit status is that of the first failed process, or 128 + its signal.");
  return [options, &parser](const Session& session) {
    options->command = parser.remaining();
    return run_symm_run(session, *options);
  };
}

ExitCode run_symm_run(const Session& session, const PeOptions& options) {
  if (options.command.empty() || options.command.front().starts_with("-")) {
    session.console.print_message(
        options.command.empty()
            ? "symm-run: missing program; see ashlar help symm-run"
            : fmt::format("unexpected argument \"{}\"; see ashlar help symm-run",
                          options.command.front()));
    return ExitCode::kInvalidArgument;
  }
  const Result<PeResult> end = run_pes(options, session.environment);
  if (!end.ok()) return print_failure(end.status(), session);
  if (!end->message.empty()) session.console.print_message("symm-run: " + end->message);
  return static_cast<ExitCode>(end->status);
}

}  // namespace
}  // namespace ashlar
