// SPDX-License-Identifier: Apache-2.0
//
// `ashlar demo`: the guided tour. First the allocators, one program under each (demo_engines.cc).
// Then the simulated machine below them at work, told so that one can follow it: with threads, as
// programs run, and with a seed, as tests do (demo_workload.cc).
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/units.h"
#include "cli/demo_engines.h"
#include "cli/demo_workload.h"
#include "cli/plot.h"
#include "cli/subcommand.h"
#include "cli/table.h"
#include "cli/terminal.h"

namespace ashlar {
namespace {

constexpr uint64_t kUsualSeed = 7;
constexpr size_t kCallsShown = 8;
constexpr double kPagedPromise = 1.08;  // peak reserved for peak requested, at the most

Run prepare_demo(CLI::App& parser);
ExitCode run_demo(const Session& session);
ExitCode give_up(const Session& session, const Status& failure);
Result<bool> show_engines(const Session& session);
Result<bool> show_threads(Console& console);
Result<bool> show_seeds(Console& console, uint64_t seed);

}  // namespace

const Subcommand kDemo = {
    .name = "demo",
    .summary = "The guided tour: allocators side by side, and the simulated machine at work",
    .prepare = prepare_demo,
};

namespace {

Run prepare_demo(CLI::App& parser) {
  parser.footer(
      "The demo makes its own machine; of the environment only ASHLAR_SIM_SEED counts.\n"
      "Exit code 1: something came out wrong.");
  return run_demo;
}

ExitCode run_demo(const Session& session) {
  Result<bool> engines_right = show_engines(session);
  if (!engines_right.ok()) return give_up(session, engines_right.status());
  Result<bool> threads_right = show_threads(session.console);
  if (!threads_right.ok()) return give_up(session, threads_right.status());
  const uint64_t seed = session.sim_options.seed.value_or(kUsualSeed);
  Result<bool> seeds_right = show_seeds(session.console, seed);
  if (!seeds_right.ok()) return give_up(session, seeds_right.status());

  const bool all_right = *engines_right && *threads_right && *seeds_right;
  session.console.print(all_right ? "\nAll of it came out right.\n"
                                  : "\nNot all of it came out right: see the lines marked NO.\n");
  return all_right ? ExitCode::kDone : ExitCode::kNo;
}

ExitCode give_up(const Session& session, const Status& failure) {
  session.console.complain("demo: " + failure.message());
  return ExitCode::kNo;
}

std::string checks_as_text(const std::vector<Check>& checks) {
  Table table({{}, {}});
  for (const Check& check : checks) table.add({check.holds ? "yes" : "NO", check.sentence});
  return table.to_text();
}

bool all_hold(const std::vector<Check>& checks) {
  return std::all_of(checks.begin(), checks.end(), [](const Check& check) { return check.holds; });
}

// --- one program, several allocators -------------------------------------------------------------

// What was live as an area, and above it what each setting had reserved for it.
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

double times_requested(const EngineRun& run) {
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
               fmt::format("{:.2f}", times_requested(run)), group_digits(calls),
               fmt::format("{:.1f}", static_cast<double>(run.driver.total_ns) / 1e6)});
  }
  return table.to_text();
}

std::vector<Check> checks_of(const std::vector<EngineRun>& runs) {
  const EngineRun& paged = runs.back();
  std::vector<Check> checks = {
      {fmt::format("all were asked for the same, {} allocations, {} at once at the most",
                   group_digits(static_cast<uint64_t>(paged.stats.allocation.all.risen)),
                   format_bytes(static_cast<size_t>(paged.stats.requested_bytes.all.peak))),
       true},
      {fmt::format("the paged engine never held more than {:.0f} % above what was requested at the "
                   "peak, and less than the others",
                   100 * (kPagedPromise - 1)),
       times_requested(paged) <= kPagedPromise},
      {"afterwards everything was given back to the device", true},
  };
  for (const EngineRun& run : runs) {
    checks[0].holds &= run.stats.allocation.all.risen == paged.stats.allocation.all.risen &&
                       run.stats.requested_bytes.all.peak == paged.stats.requested_bytes.all.peak;
    checks[1].holds &= &run == &paged || times_requested(paged) < times_requested(run);
    checks[2].holds &= run.gave_all_back;
  }
  return checks;
}

// True when everything came out right.
Result<bool> show_engines(const Session& session) {
  const TrainingLoad load;
  const Result<std::vector<EngineRun>> runs = run_under_engines(load);
  if (!runs.ok()) return runs.status();
  const std::vector<Check> checks = checks_of(*runs);
  session.console.print(fmt::format(
      "One program, three allocators: it trains a network of {} layers for {} steps on images of "
      "all\n"
      "sizes, keeps what the layers put out until it has come back through them, and now and then\n"
      "tries the network on another stream.\n"
      "No GPU is involved. The allocators are real, and what they ask of the driver is priced as "
      "on\n"
      "an H200 (a model made of measurements).\n"
      "\nWhat the program requested, and what each allocator reserved for it\n{}\n{}"
      "\nWhat must hold\n{}\n",
      load.layer_count, load.step_count, runs_as_plot(*runs, terminal_in(session.environment)),
      runs_as_table(*runs), checks_as_text(checks)));
  return all_hold(checks);
}

// --- the machine below ---------------------------------------------------------------------------

std::string asked_as_text(const WorkloadRecord& record) {
  Table table({{}, {}});
  for (const auto& [where, what] : record.asked) table.add({where, what});
  return table.to_text();
}

// One line for each stream, one column for each piece of work, in the order of finishing.
std::string lanes_as_text(const std::vector<Finished>& finished) {
  Table table({{}, {}});
  for (Lane lane : {Lane::kLeft, Lane::kRight, Lane::kJoin, Lane::kReduce}) {
    std::string line;
    for (const Finished& each : finished) {
      line += fmt::format("{:<3}", each.lane == lane ? each.piece : "·");
    }
    table.add({std::string(name(lane)), line});
  }
  return table.to_text();
}

std::string microseconds(int64_t duration_ns) {
  return fmt::format("{:.1f} µs", static_cast<double>(duration_ns) / 1000);
}

// The dearest calls one by one, the others together.
std::string costs_as_text(const std::array<sim::CallCosts, 2>& costs) {
  struct Cost {
    std::string call;
    uint64_t first_count = 0;
    uint64_t second_count = 0;
    int64_t modelled_ns = 0;
  };
  const auto& [first, second] = costs;
  std::vector<Cost> made;
  Cost rest = {"other calls", 0, 0, 0};
  Cost all = {"in all", 0, 0, first.total_ns + second.total_ns};
  for (size_t i = 0; i < kDeviceCallCount; ++i) {
    made.push_back({std::string(name(static_cast<DeviceCall>(i))), first.count[i], second.count[i],
                    first.modelled_ns[i] + second.modelled_ns[i]});
    all.first_count += first.count[i];
    all.second_count += second.count[i];
  }
  std::stable_sort(made.begin(), made.end(),
                   [](const Cost& a, const Cost& b) { return a.modelled_ns > b.modelled_ns; });
  for (size_t i = kCallsShown; i < made.size(); ++i) {
    rest.first_count += made[i].first_count;
    rest.second_count += made[i].second_count;
    rest.modelled_ns += made[i].modelled_ns;
  }
  made.resize(kCallsShown);
  made.push_back(rest);
  made.push_back(all);

  Table table({{"call"},
               {"on sim:0", Align::kRight},
               {"on sim:1", Align::kRight},
               {"modelled", Align::kRight}});
  for (const Cost& cost : made) {
    table.add({cost.call, group_digits(cost.first_count), group_digits(cost.second_count),
               microseconds(cost.modelled_ns)});
  }
  return table.to_text();
}

// True when everything came out right.
Result<bool> show_threads(Console& console) {
  const sim::Options machine = workload_machine({});
  const Result<WorkloadRecord> record = run_workload(machine);
  if (!record.ok()) return record.status();
  console.print(fmt::format(
      "Below them, a device. Here is a simulated machine with two of {} each, sim:0 and sim:1, "
      "and\n"
      "four streams. Again no GPU is involved; the memory, the threads and the waiting are real.\n"
      "\nWhat was asked\n{}"
      "\nThe order in which the pieces finished, from left to right (another run, another "
      "order)\n{}"
      "\nWhat must hold\n{}"
      "\nThe driver calls, and what they would have cost on an H200 (a model made of "
      "measurements)\n{}",
      format_bytes(machine.capacity_bytes), asked_as_text(*record), lanes_as_text(record->finished),
      checks_as_text(record->checks), costs_as_text(record->costs)));
  return all_hold(record->checks);
}

std::string order_as_text(const WorkloadRecord& record) {
  std::string line;
  for (const Finished& each : record.finished) line += fmt::format("{:<3}", each.piece);
  return line;
}

// The same seed twice, then another one.
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
      {fmt::format("seed {} gave the same order and the same modelled cost twice", seed),
       records[0].finished == records[1].finished &&
           records[0].costs[0].total_ns == records[1].costs[0].total_ns &&
           records[0].costs[1].total_ns == records[1].costs[1].total_ns},
      {"whatever the order, the sum was the same and every check above held", true},
  };
  for (const WorkloadRecord& record : records) {
    checks.back().holds =
        checks.back().holds && record.sum == records[0].sum && all_hold(record.checks);
  }
  console.print(
      fmt::format("\nThe same work with a seed: nothing runs by itself, and the order follows from "
                  "the seed\n{}\n{}",
                  table.to_text(), checks_as_text(checks)));
  return all_hold(checks);
}

}  // namespace
}  // namespace ashlar
