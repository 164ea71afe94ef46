// SPDX-License-Identifier: Apache-2.0
//
// `ashlar symm-bench`: measures symmetric memory between processes on this machine.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <memory>
#include <string>

#include "base/units.h"
#include "cli/subcommand.h"
#include "cli/symm/symm_bench_runner.h"
#include "cli/terminal/json_output.h"
#include "cli/terminal/table.h"

namespace ashlar {
namespace {

struct SymmBenchArguments {
  bool json = false;
  SymmBenchOptions options;
};

CommandFunction prepare_symm_bench(CLI::App& parser);
ExitCode run_symm_bench_command(const Session& session, const SymmBenchArguments& arguments);
const char* name_of(SymmBenchTransport transport);
std::string symm_bench_as_json(const SymmBenchOptions& options, const SymmBenchOutcome& outcome);
std::string symm_bench_as_text(const SymmBenchOptions& options, const SymmBenchOutcome& outcome);

}  // namespace

const Subcommand kSymmBench = {
    .name = "symm-bench",
    .summary = "Measure barrier, put, get and all-reduce between processes",
    .prepare = prepare_symm_bench,
};

namespace {

CommandFunction prepare_symm_bench(CLI::App& parser) {
  auto arguments = std::make_shared<SymmBenchArguments>();
  add_json_flag(parser, arguments->json);
  parser.add_option("--ranks", arguments->options.ranks, "Number of processes")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  parser.add_option("--rounds", arguments->options.rounds, "Rounds per measurement")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  parser
      .add_option_function<std::string>(
          "--transport",
          [arguments](const std::string& name) {
            arguments->options.transport =
                name == "ucx" ? SymmBenchTransport::kUcx : SymmBenchTransport::kSharedMemory;
          },
          "shm: shared memory; ucx: TCP on the loopback device, or as set by UCX_TLS and "
          "UCX_NET_DEVICES")
      ->check(CLI::IsMember({"shm", "ucx"}))
      ->default_str("shm");
  parser.footer(
      "Put and get are between ranks 0 and 1; memcpy is a local copy of the same size.\n"
      "Compare only figures of the same run, with at most one rank per core.");
  return
      [arguments](const Session& session) { return run_symm_bench_command(session, *arguments); };
}

ExitCode run_symm_bench_command(const Session& session, const SymmBenchArguments& arguments) {
  SymmBenchOptions options = arguments.options;
  const auto transports = session.environment.value("UCX_TLS");
  if (transports) options.ucx_transports = *transports;
  // The loopback device, the default, suits TCP only.
  if (transports || session.environment.value("UCX_NET_DEVICES")) options.ucx_devices.clear();
  const Result<SymmBenchOutcome> outcome = run_symm_bench(options);
  if (!outcome.ok()) {
    session.console.print_message("symm-bench: " + outcome.status().message());
    return ExitCode::kFailure;
  }
  session.console.print(arguments.json ? symm_bench_as_json(options, *outcome)
                                       : symm_bench_as_text(options, *outcome));
  return ExitCode::kSuccess;
}

const char* name_of(SymmBenchTransport transport) {
  return transport == SymmBenchTransport::kUcx ? "ucx" : "shm";
}

std::string symm_bench_as_json(const SymmBenchOptions& options, const SymmBenchOutcome& outcome) {
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const SymmBenchResult& each : outcome.results) {
    results.push_back({{"name", each.name}, {"bytes", each.bytes}, {"us", each.us}});
  }
  return format_json(
      {{"ranks", options.ranks}, {"transport", name_of(options.transport)}, {"results", results}});
}

std::string symm_bench_as_text(const SymmBenchOptions& options, const SymmBenchOutcome& outcome) {
  Table table({{"operation"}, {"size", Align::kRight}, {"us", Align::kRight}});
  for (const SymmBenchResult& each : outcome.results) {
    table.add({each.name, each.bytes == 0 ? "-" : format_bytes(each.bytes),
               fmt::format("{:.2f}", each.us)});
  }
  return fmt::format("{} ranks, transport {}, microseconds (median of all rounds)\n{}\n{}\n",
                     options.ranks, name_of(options.transport), table.to_text(),
                     outcome.thresholds);
}

}  // namespace
}  // namespace ashlar
