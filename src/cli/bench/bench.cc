// SPDX-License-Identifier: Apache-2.0
//
// `ashlar bench`: measures the cost of allocate and free, and compares it with the cost in
// mimalloc.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <memory>
#include <string>

#include "base/units.h"
#include "cli/bench/bench_patterns.h"
#include "cli/subcommand.h"
#include "cli/terminal/json_output.h"
#include "cli/terminal/table.h"

namespace ashlar {
namespace {

struct BenchArguments {
  bool json = false;
  BenchOptions options;
};

CommandFunction prepare_bench(CLI::App& parser);
ExitCode run_bench_command(const Session& session, const BenchArguments& arguments);
std::string bench_as_json(const BenchOutcome& outcome);
std::string bench_as_text(const BenchOutcome& outcome);

}  // namespace

const Subcommand kBench = {
    .name = "bench",
    .summary = "Measure the cost of allocate and free, compared with mimalloc",
    .prepare = prepare_bench,
};

namespace {

CommandFunction prepare_bench(CLI::App& parser) {
  auto arguments = std::make_shared<BenchArguments>();
  add_json_flag(parser, arguments->json);
  parser.add_option("--rounds", arguments->options.rounds, "Rounds per pattern")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  parser.add_option("--operations", arguments->options.operations, "Operations per round")
      ->check(CLI::Range(1, 100000000))
      ->capture_default_str();
  parser.footer(
      "The engines run on a simulated device without backing memory, so that only their\n"
      "own cost is measured. Compare only figures of the same run.");
  return [arguments](const Session& session) { return run_bench_command(session, *arguments); };
}

// Estimates the duration. The default run takes about 40 s per round on a two-core virtual machine.
std::string plan_text(const BenchOptions& options) {
  constexpr double kSecondsPerOperation = 40.0 / 20000;
  const double minutes = kSecondsPerOperation * static_cast<double>(options.rounds) *
                         static_cast<double>(options.operations) / 60;
  return fmt::format(
      "bench: measuring the classic and paged engines and mimalloc, {} round{}; takes {}",
      options.rounds, options.rounds == 1 ? "" : "s",
      minutes < 1 ? "less than a minute" : fmt::format("about {:.0f} minutes", minutes));
}

ExitCode run_bench_command(const Session& session, const BenchArguments& arguments) {
  Console& console = session.console;
  if (!arguments.json) console.print_message(plan_text(arguments.options));
  const Result<BenchOutcome> outcome =
      run_bench(arguments.options, [&console](double share) { console.set_progress(share); });
  console.clear_progress();
  if (!outcome.ok()) {
    session.console.print_message("bench: " + outcome.status().message());
    return ExitCode::kFailure;
  }
  if (!outcome->missing_reference.empty())
    session.console.print_message("bench: " + outcome->missing_reference);
  session.console.print(arguments.json ? bench_as_json(*outcome) : bench_as_text(*outcome));
  return ExitCode::kSuccess;
}

std::string bench_as_json(const BenchOutcome& outcome) {
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const BenchResult& each : outcome.results) {
    results.push_back({{"name", each.name},
                       {"allocator", each.allocator},
                       {"bytes", each.bytes},
                       {"live", each.live},
                       {"threads", each.threads},
                       {"ns", each.ns}});
  }
  return format_json({{"results", results}});
}

// Returns mimalloc's result for the same pattern, or 0 if mimalloc was not measured.
double reference_ns(const BenchOutcome& outcome, const BenchResult& result) {
  for (const BenchResult& each : outcome.results) {
    const bool same = each.name == result.name && each.bytes == result.bytes &&
                      each.live == result.live && each.threads == result.threads;
    if (same && each.allocator == "mimalloc") return each.ns;
  }
  return 0;
}

std::string bench_as_text(const BenchOutcome& outcome) {
  Table table({{"pattern"},
               {"block", Align::kRight},
               {"live", Align::kRight},
               {"threads", Align::kRight},
               {"allocator"},
               {"ns", Align::kRight},
               {"vs mimalloc", Align::kRight}});
  for (const BenchResult& each : outcome.results) {
    const double reference = reference_ns(outcome, each);
    table.add({each.name, each.bytes == 0 ? "mixed" : format_bytes(each.bytes),
               group_digits(each.live), std::to_string(each.threads), each.allocator,
               fmt::format("{:.1f}", each.ns),
               reference == 0 ? "-" : fmt::format("{:.1f} x", each.ns / reference)});
  }
  return fmt::format(
      "Nanoseconds per allocate and free (median of all rounds; threads: fastest round)\n{}",
      table.to_text());
}

}  // namespace
}  // namespace ashlar
