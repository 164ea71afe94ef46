// SPDX-License-Identifier: Apache-2.0
//
// `ashlar symm-bench`: what symmetric memory costs between processes of this machine.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <memory>
#include <string>

#include "base/units.h"
#include "cli/json_answer.h"
#include "cli/subcommand.h"
#include "cli/symm_bench_ranks.h"
#include "cli/table.h"

namespace ashlar {
namespace {

struct SymmBenchArguments {
  bool json = false;
  SymmBenchEffort effort;
};

Run prepare_symm_bench(CLI::App& parser);
ExitCode run_command(const Session& session, const SymmBenchArguments& arguments);
const char* name_of(SymmBenchWay way);
std::string as_json(const SymmBenchEffort& effort, const SymmBenchOutcome& outcome);
std::string as_text(const SymmBenchEffort& effort, const SymmBenchOutcome& outcome);

}  // namespace

const Subcommand kSymmBench = {
    .name = "symm-bench",
    .summary = "Measure symmetric memory between processes: barrier, put, get, all-reduce",
    .prepare = prepare_symm_bench,
};

namespace {

Run prepare_symm_bench(CLI::App& parser) {
  auto arguments = std::make_shared<SymmBenchArguments>();
  add_json_flag(parser, arguments->json);
  parser.add_option("--ranks", arguments->effort.ranks, "How many processes")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  parser.add_option("--rounds", arguments->effort.rounds, "How often each is measured")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  parser
      .add_option_function<std::string>(
          "--transport",
          [arguments](const std::string& named) {
            arguments->effort.way =
                named == "ucx" ? SymmBenchWay::kUcx : SymmBenchWay::kSharedMemory;
          },
          "shm: shared memory; ucx: as between machines, by TCP or as UCX_TLS says")
      ->check(CLI::IsMember({"shm", "ucx"}))
      ->default_str("shm");
  parser.footer(
      "Put and get are between rank 0 and rank 1, beside a plain copy of the same size.\n"
      "Compare figures of one run only; with more ranks than cores they say little.");
  return [arguments](const Session& session) { return run_command(session, *arguments); };
}

ExitCode run_command(const Session& session, const SymmBenchArguments& arguments) {
  SymmBenchEffort effort = arguments.effort;
  if (const auto chosen = session.environment.value("UCX_TLS")) effort.ucx_transports = *chosen;
  const Result<SymmBenchOutcome> outcome = run_symm_bench(effort);
  if (!outcome.ok()) {
    session.console.complain("symm-bench: " + outcome.status().message());
    return ExitCode::kNo;
  }
  session.console.print(arguments.json ? as_json(effort, *outcome) : as_text(effort, *outcome));
  return ExitCode::kDone;
}

const char* name_of(SymmBenchWay way) { return way == SymmBenchWay::kUcx ? "ucx" : "shm"; }

std::string as_json(const SymmBenchEffort& effort, const SymmBenchOutcome& outcome) {
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const SymmBenchResult& each : outcome.results) {
    results.push_back({{"name", each.name}, {"bytes", each.bytes}, {"us", each.us}});
  }
  return json_answer(
      {{"ranks", effort.ranks}, {"transport", name_of(effort.way)}, {"results", results}});
}

std::string as_text(const SymmBenchEffort& effort, const SymmBenchOutcome& outcome) {
  Table table({{"what"}, {"size", Align::kRight}, {"us", Align::kRight}});
  for (const SymmBenchResult& each : outcome.results) {
    table.add({each.name, each.bytes == 0 ? "-" : format_bytes(each.bytes),
               fmt::format("{:.2f}", each.us)});
  }
  return fmt::format("{} ranks by {}, microseconds (medians of one run)\n{}\n{}\n", effort.ranks,
                     name_of(effort.way), table.to_text(), outcome.thresholds);
}

}  // namespace
}  // namespace ashlar
