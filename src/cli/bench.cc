// SPDX-License-Identifier: Apache-2.0
//
// `ashlar bench`: what allocating and freeing costs, beside the same on mimalloc, in one run.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <memory>
#include <string>

#include "base/units.h"
#include "cli/bench_patterns.h"
#include "cli/json_answer.h"
#include "cli/subcommand.h"
#include "cli/table.h"

namespace ashlar {
namespace {

struct BenchArguments {
  bool json = false;
  BenchEffort effort;
};

Run prepare_bench(CLI::App& parser);
ExitCode run_command(const Session& session, const BenchArguments& arguments);
std::string as_json(const BenchOutcome& outcome);
std::string as_text(const BenchOutcome& outcome);

}  // namespace

const Subcommand kBench = {
    .name = "bench",
    .summary = "Measure what allocating and freeing costs, beside mimalloc",
    .prepare = prepare_bench,
};

namespace {

Run prepare_bench(CLI::App& parser) {
  auto arguments = std::make_shared<BenchArguments>();
  add_json_flag(parser, arguments->json);
  parser.add_option("--rounds", arguments->effort.rounds, "How often each is measured")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  parser.add_option("--operations", arguments->effort.operations, "Operations in one measurement")
      ->check(CLI::Range(1, 100000000))
      ->capture_default_str();
  parser.footer(
      "The engines run on a simulated device that keeps books only: what is measured is their own "
      "cost.\nCompare figures of one run only.");
  return [arguments](const Session& session) { return run_command(session, *arguments); };
}

ExitCode run_command(const Session& session, const BenchArguments& arguments) {
  Result<BenchOutcome> outcome = run_bench(arguments.effort);
  if (!outcome.ok()) {
    session.console.complain("bench: " + outcome.status().message());
    return ExitCode::kNo;
  }
  if (!outcome->missing.empty()) session.console.complain("bench: " + outcome->missing);
  session.console.print(arguments.json ? as_json(*outcome) : as_text(*outcome));
  return ExitCode::kDone;
}

std::string as_json(const BenchOutcome& outcome) {
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const BenchResult& each : outcome.results) {
    results.push_back({{"name", each.name},
                       {"allocator", each.allocator},
                       {"bytes", each.bytes},
                       {"live", each.live},
                       {"threads", each.threads},
                       {"ns", each.ns}});
  }
  return json_answer({{"results", results}});
}

// The same pattern's figure for the reference; 0 if there is none.
double reference_ns(const BenchOutcome& outcome, const BenchResult& result) {
  for (const BenchResult& each : outcome.results) {
    const bool same = each.name == result.name && each.bytes == result.bytes &&
                      each.live == result.live && each.threads == result.threads;
    if (same && each.allocator == "mimalloc") return each.ns;
  }
  return 0;
}

std::string as_text(const BenchOutcome& outcome) {
  Table table({{"pattern"},
               {"block", Align::kRight},
               {"live", Align::kRight},
               {"threads", Align::kRight},
               {"allocator"},
               {"ns", Align::kRight},
               {"of mimalloc", Align::kRight}});
  for (const BenchResult& each : outcome.results) {
    const double reference = reference_ns(outcome, each);
    table.add({each.name, each.bytes == 0 ? "mixed" : format_bytes(each.bytes),
               group_digits(each.live), std::to_string(each.threads), each.allocator,
               fmt::format("{:.1f}", each.ns),
               reference == 0 ? "-" : fmt::format("{:.1f} x", each.ns / reference)});
  }
  return fmt::format(
      "One allocate and one free, in nanoseconds (medians of one run; of threads the "
      "fastest round)\n{}",
      table.to_text());
}

}  // namespace
}  // namespace ashlar
