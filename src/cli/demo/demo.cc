// SPDX-License-Identifier: Apache-2.0
//
// `ashlar demo`: a guided tour. Runs one program with each allocator (demo_engines.cc), then a
// workload on the simulated machine, first with threads, then with seeds (demo_workload.cc).
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/units.h"
#include "cli/demo/demo_engines.h"
#include "cli/demo/demo_workload.h"
#include "cli/subcommand.h"
#include "cli/terminal/plot.h"
#include "cli/terminal/style.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"

namespace ashlar {
namespace {

constexpr uint64_t kDefaultSeed = 7;
constexpr size_t kCallsShown = 8;
constexpr double kMaxPagedRatio = 1.08;  // peak reserved / peak requested

CommandFunction prepare_demo(CLI::App& parser);
ExitCode run_demo(const Session& session);
ExitCode fail_demo(const Session& session, const Status& failure);
Result<bool> show_engines(const Session& session);
Result<bool> show_threads(Console& console);
Result<bool> show_seeds(Console& console, uint64_t seed);

}  // namespace

const Subcommand kDemo = {
    .name = "demo",
    .summary = "Guided tour: three allocators compared, and the simulated machine",
    .prepare = prepare_demo,
};

namespace {

CommandFunction prepare_demo(CLI::App& parser) {
  parser.footer(
      "The demo creates its own simulated machine. Of the environment variables, only\n"
      "ASHLAR_SIM_SEED has an effect. Exit code 1: a check failed.");
  return run_demo;
}

ExitCode run_demo(const Session& session) {
  Result<bool> engines_passed = show_engines(session);
  if (!engines_passed.ok()) return fail_demo(session, engines_passed.status());
  Result<bool> threads_passed = show_threads(session.console);
  if (!threads_passed.ok()) return fail_demo(session, threads_passed.status());
  const uint64_t seed = session.sim_options.seed.value_or(kDefaultSeed);
  Result<bool> seeds_passed = show_seeds(session.console, seed);
  if (!seeds_passed.ok()) return fail_demo(session, seeds_passed.status());

  const bool all_passed = *engines_passed && *threads_passed && *seeds_passed;
  session.console.print(all_passed ? "\nAll checks passed.\n"
                                   : "\nSome checks failed: see the lines marked NO.\n");
  return all_passed ? ExitCode::kSuccess : ExitCode::kFailure;
}

ExitCode fail_demo(const Session& session, const Status& failure) {
  session.console.print_message("demo: " + failure.message());
  return ExitCode::kFailure;
}

std::string checks_as_text(const std::vector<Check>& checks) {
  Table table({{}, {}});
  for (const Check& check : checks) table.add({check.holds ? green("yes") : red("NO"), check.text});
  return table.to_text();
}

bool all_hold(const std::vector<Check>& checks) {
  return std::all_of(checks.begin(), checks.end(), [](const Check& check) { return check.holds; });
}

// Plots the requested bytes as an area, and the reserved bytes of each allocator as a line.
std::string runs_as_plot(const std::vector<EngineRun>& runs, const Terminal& terminal) {
  const size_t columns = plot_columns(terminal);
  Plot plot;
  plot.series.push_back(
      {.name = "requested",
       .columns = downsample(runs.front().timeline, Quantity::kRequested, columns)});
  for (const EngineRun& run : runs) {
    plot.series.push_back({.name = run.name,
                           .style = PlotStyle::kLine,
                           .columns = downsample(run.timeline, Quantity::kReserved, columns)});
  }
  plot.begin_text = "start";
  plot.end_text = "end";
  return draw(plot, terminal);
}

double reserved_ratio(const EngineRun& run) {
  return static_cast<double>(run.stats.reserved_bytes.all.peak) /
         static_cast<double>(std::max<int64_t>(run.stats.requested_bytes.all.peak, 1));
}

std::string runs_as_table(const std::vector<EngineRun>& runs) {
  Table table({{"settings"},
               {"peak reserved", Align::kRight},
               {"× requested", Align::kRight},
               {"driver calls", Align::kRight},
               {"driver ms", Align::kRight}});
  for (const EngineRun& run : runs) {
    uint64_t calls = 0;
    for (const uint64_t count : run.driver.count) calls += count;
    table.add({run.title, format_bytes(static_cast<size_t>(run.stats.reserved_bytes.all.peak)),
               fmt::format("{:.2f}", reserved_ratio(run)), group_digits(calls),
               fmt::format("{:.1f}", static_cast<double>(run.driver.total_ns) / 1e6)});
  }
  return table.to_text();
}

std::vector<Check> check_engines(const std::vector<EngineRun>& runs) {
  const EngineRun& paged = runs.back();
  std::vector<Check> checks = {
      {fmt::format("all allocators served the same {} allocations, peak {} requested",
                   group_digits(static_cast<uint64_t>(paged.stats.allocation.all.increased)),
                   format_bytes(static_cast<size_t>(paged.stats.requested_bytes.all.peak))),
       true},
      {fmt::format("the paged engine reserved at most {:.0f} % more than requested, and the least",
                   100 * (kMaxPagedRatio - 1)),
       reserved_ratio(paged) <= kMaxPagedRatio},
      {"all memory was returned to the device at the end", true},
  };
  for (const EngineRun& run : runs) {
    checks[0].holds &= run.stats.allocation.all.increased == paged.stats.allocation.all.increased &&
                       run.stats.requested_bytes.all.peak == paged.stats.requested_bytes.all.peak;
    checks[1].holds &= &run == &paged || reserved_ratio(paged) < reserved_ratio(run);
    checks[2].holds &= run.returned_all_memory;
  }
  return checks;
}

// Runs the program with each allocator, and returns whether all checks passed.
Result<bool> show_engines(const Session& session) {
  const TrainingLoad load;
  const Result<std::vector<EngineRun>> runs = run_with_engines(load);
  if (!runs.ok()) return runs.status();
  const std::vector<Check> checks = check_engines(*runs);
  session.console.print(fmt::format(
      "{}\n"
      "The program trains a network of {} layers for {} steps on images of varying sizes.\n"
      "It keeps the layers' outputs until the backward pass, and evaluates on a second stream.\n"
      "No GPU is used: the allocators are real, the driver's costs are modelled on an H200.\n"
      "\n{}\n{}\n{}"
      "\n{}\n{}\n",
      bold("One program, three allocators"), load.layer_count, load.step_count,
      bold("Memory requested by the program, and reserved by each allocator"),
      runs_as_plot(*runs, detect_terminal(session.environment)), runs_as_table(*runs),
      bold("Checks"), checks_as_text(checks)));
  return all_hold(checks);
}

std::string operations_as_text(const WorkloadRecord& record) {
  Table table({{}, {}});
  for (const auto& [where, what] : record.operations) table.add({where, what});
  return table.to_text();
}

// Formats a table with one line per stream and one column per piece of work, in the order of
// completion.
std::string lanes_as_text(const std::vector<FinishedPiece>& finished) {
  Table table({{}, {}});
  for (Lane lane : {Lane::kLeft, Lane::kRight, Lane::kJoin, Lane::kReduce}) {
    std::string line;
    for (const FinishedPiece& each : finished) {
      line += fmt::format("{:<3}", each.lane == lane ? each.piece : "·");
    }
    table.add({std::string(name(lane)), line});
  }
  return table.to_text();
}

std::string microseconds(int64_t duration_ns) {
  return fmt::format("{:.1f} µs", static_cast<double>(duration_ns) / 1000);
}

// Formats the most expensive calls, then the sum of the other calls.
std::string costs_as_text(const std::array<sim::CallCosts, 2>& costs) {
  struct Cost {
    std::string call;
    uint64_t first_count = 0;
    uint64_t second_count = 0;
    int64_t modelled_ns = 0;
  };
  const auto& [first, second] = costs;
  std::vector<Cost> rows;
  Cost others = {"other calls", 0, 0, 0};
  Cost all = {"in all", 0, 0, first.total_ns + second.total_ns};
  for (size_t i = 0; i < kDeviceCallCount; ++i) {
    rows.push_back({std::string(name(static_cast<DeviceCall>(i))), first.count[i], second.count[i],
                    first.modelled_ns[i] + second.modelled_ns[i]});
    all.first_count += first.count[i];
    all.second_count += second.count[i];
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Cost& a, const Cost& b) { return a.modelled_ns > b.modelled_ns; });
  for (size_t i = kCallsShown; i < rows.size(); ++i) {
    others.first_count += rows[i].first_count;
    others.second_count += rows[i].second_count;
    others.modelled_ns += rows[i].modelled_ns;
  }
  rows.resize(kCallsShown);
  rows.push_back(others);
  rows.push_back(all);

  Table table({{"call"},
               {"on sim:0", Align::kRight},
               {"on sim:1", Align::kRight},
               {"modelled", Align::kRight}});
  for (const Cost& cost : rows) {
    table.add({cost.call, group_digits(cost.first_count), group_digits(cost.second_count),
               microseconds(cost.modelled_ns)});
  }
  return table.to_text();
}

// Runs the workload with threads, and returns whether all checks passed.
Result<bool> show_threads(Console& console) {
  const sim::Options machine = workload_machine({});
  const Result<WorkloadRecord> record = run_workload(machine);
  if (!record.ok()) return record.status();
  console.print(fmt::format(
      "{}\n"
      "Two devices of {}, sim:0 and sim:1, with four streams. Memory, threads and waiting\n"
      "are real.\n"
      "\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}",
      bold("The simulated machine"), format_bytes(machine.capacity_bytes), bold("Operations"),
      operations_as_text(*record), bold("Order of completion (differs from run to run)"),
      lanes_as_text(record->finished), bold("Checks"), checks_as_text(record->checks),
      bold("Driver calls, and their modelled cost on an H200"), costs_as_text(record->costs)));
  return all_hold(record->checks);
}

std::string order_as_text(const WorkloadRecord& record) {
  std::string line;
  for (const FinishedPiece& each : record.finished) line += fmt::format("{:<3}", each.piece);
  return line;
}

// Runs the workload twice with the same seed, then with another seed.
Result<bool> show_seeds(Console& console, uint64_t seed) {
  std::vector<WorkloadRecord> records;
  const std::array seeds = {seed, seed, seed + 1};
  Table table({{}, {}});
  for (uint64_t each : seeds) {
    Result<WorkloadRecord> record = run_workload(workload_machine(each));
    if (!record.ok()) return record.status();
    table.add({fmt::format("seed {}", each), order_as_text(*record)});
    records.push_back(*std::move(record));
  }
  std::vector<Check> checks = {
      {fmt::format("two runs with seed {} had the same order and the same modelled cost", seed),
       records[0].finished == records[1].finished &&
           records[0].costs[0].total_ns == records[1].costs[0].total_ns &&
           records[0].costs[1].total_ns == records[1].costs[1].total_ns},
      {"the sum was the same in every order, and all checks above passed", true},
  };
  for (const WorkloadRecord& record : records) {
    checks.back().holds =
        checks.back().holds && record.sum == records[0].sum && all_hold(record.checks);
  }
  console.print(fmt::format("\n{}\n{}\n{}",
                            bold("The same workload with a seed, which determines the order"),
                            table.to_text(), checks_as_text(checks)));
  return all_hold(checks);
}

}  // namespace
}  // namespace ashlar
