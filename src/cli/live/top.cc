// SPDX-License-Identifier: Apache-2.0
//
// `ashlar top`: shows the counters of a running process periodically, or lists the processes that
// can be monitored.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "base/units.h"
#include "cli/live/live_client.h"
#include "cli/live/top_text.h"
#include "cli/subcommand.h"
#include "cli/terminal/json_output.h"
#include "cli/terminal/screen.h"
#include "cli/terminal/stack_text.h"
#include "cli/terminal/table.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::steady_clock;

constexpr size_t kMaxSamples = 2'000;

struct TopArguments {
  pid_t pid = 0;  // 0: list the processes
  double interval_seconds = 1;
  bool once = false;
  bool json = false;
};

CommandFunction prepare_top(CLI::App& parser);
ExitCode run_top(const TopArguments& arguments, const Session& session);

}  // namespace

const Subcommand kTop = {
    .name = "top",
    .summary = "Watch the memory of a running process, or list such processes",
    .prepare = prepare_top,
};

namespace {

CommandFunction prepare_top(CLI::App& parser) {
  auto arguments = std::make_shared<TopArguments>();
  parser.add_option("PID", arguments->pid, "PID of a process with live monitoring; omit to list")
      ->check(CLI::Range(1, 1 << 30));
  parser.add_option("--interval", arguments->interval_seconds, "Seconds between updates")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  parser.add_flag("--once", arguments->once, "Print one sample and exit")->disable_flag_override();
  add_json_flag(parser, arguments->json);
  return [arguments](const Session& session) { return run_top(*arguments, session); };
}

ExitCode list_processes(const TopArguments& arguments, const Session& session);
ExitCode print_json(LiveClient& process, const Session& session);
ExitCode print_lines(LiveClient& process, const TopArguments& arguments, const Session& session);
ExitCode run_full_screen(LiveClient& process, const TopArguments& arguments,
                         const Session& session);

ExitCode run_top(const TopArguments& arguments, const Session& session) {
  if (arguments.pid == 0) return list_processes(arguments, session);
  LiveClient process(arguments.pid);
  if (arguments.json) return print_json(process, session);
  const bool uses_screen =
      !arguments.once && Screen::is_supported(session.environment.value("TERM").value_or(""));
  return uses_screen ? run_full_screen(process, arguments, session)
                     : print_lines(process, arguments, session);
}

ExitCode list_processes(const TopArguments& arguments, const Session& session) {
  const Result<std::vector<LiveProcessStats>> all = find_live_processes();
  if (!all.ok()) return print_failure(all.status(), session);
  Json list = Json::array();
  Table table({{"process", Align::kRight},
               {"program"},
               {"allocators", Align::kRight},
               {"reserved", Align::kRight},
               {"allocated", Align::kRight},
               {"requested", Align::kRight},
               {""}});
  for (const LiveProcessStats& each : *all) {
    if (!each.stats.ok()) {
      list.push_back({{"pid", each.pid}, {"error", each.stats.status().message()}});
      table.add({std::to_string(each.pid), "-", "-", "-", "-", "-", each.stats.status().message()});
      continue;
    }
    const LiveStats& stats = *each.stats;
    list.push_back(live_stats_json(stats, each.pid));
    table.add({std::to_string(each.pid), printable(stats.program),
               std::to_string(stats.allocators.size()),
               format_bytes(stats.total(&LiveAllocatorStats::reserved_bytes)),
               format_bytes(stats.total(&LiveAllocatorStats::allocated_bytes)),
               format_bytes(stats.total(&LiveAllocatorStats::requested_bytes)),
               printable(stats.setup_error)});
  }
  if (arguments.json) {
    session.console.print(format_json({{"processes", std::move(list)}}));
  } else if (all->empty()) {
    session.console.print_message(
        "no process of this user has live monitoring on; start one with ASHLAR_LIVE=on, or create "
        "an ashlar::LiveServer in it");
  } else {
    session.console.print(table.to_text());
  }
  return all->empty() ? ExitCode::kFailure : ExitCode::kSuccess;
}

ExitCode print_json(LiveClient& process, const Session& session) {
  const Result<LiveStats> stats = process.get_stats();
  if (!stats.ok()) return print_failure(stats.status(), session);
  session.console.print(format_json(live_stats_json(*stats, process.pid())));
  return ExitCode::kSuccess;
}

steady_clock::duration update_interval(const TopArguments& arguments) {
  return std::chrono::duration_cast<steady_clock::duration>(
      std::chrono::duration<double>(arguments.interval_seconds));
}

// Prints the message. The end of the monitored process is not a failure of the command.
ExitCode finish(const Status& failure, const Session& session) {
  session.console.print_message(failure.message());
  return failure.is(StatusKind::kPeerLost) ? ExitCode::kSuccess : exit_code_for(failure);
}

void append(LiveSamples& samples, LiveStats stats) {
  samples.push_back(std::move(stats));
  if (samples.size() > kMaxSamples) samples.pop_front();
}

ExitCode print_lines(LiveClient& process, const TopArguments& arguments, const Session& session) {
  LiveSamples samples;
  while (true) {
    Result<LiveStats> stats = process.get_stats();
    if (!stats.ok()) return finish(stats.status(), session);
    if (samples.empty() && !stats->setup_error.empty()) {
      session.console.print_message(printable(stats->setup_error));
    }
    if (samples.empty()) session.console.print(top_headings());
    append(samples, *std::move(stats));
    session.console.print(top_lines(samples));
    if (arguments.once || !session.console.has_reader()) return ExitCode::kSuccess;
    std::this_thread::sleep_for(update_interval(arguments));
  }
}

// Updates the screen until the user quits. Returns the first failure; a timeout is only displayed.
Status watch(LiveClient& process, const TopArguments& arguments, const Session& session,
             LiveStats first) {
  Result<std::unique_ptr<Screen>> screen = Screen::open();
  if (!screen.ok()) return screen.status();
  LiveSamples samples;
  append(samples, std::move(first));
  TopPage page;
  page.pid = process.pid();
  auto next_update = steady_clock::now() + update_interval(arguments);
  while (true) {
    (*screen)->show(top_screen(samples, page, detect_terminal(session.environment)));
    switch ((*screen)->wait(next_update)) {
      case Screen::Event::kEnd: return {};
      case Screen::Event::kRedraw: continue;
      case Screen::Event::kKey:
        if ((*screen)->key() == 'q' || (*screen)->key() == 'Q') return {};
        continue;
      case Screen::Event::kTimeout: break;
    }
    Result<LiveStats> stats = process.get_stats();
    next_update = steady_clock::now() + update_interval(arguments);
    if (stats.ok()) {
      append(samples, *std::move(stats));
      page.note.clear();
    } else if (stats.status().is(StatusKind::kTimeout)) {
      page.note = "no response; the process may be stopped; q quits";
    } else {
      return stats.status();
    }
  }
}

ExitCode run_full_screen(LiveClient& process, const TopArguments& arguments,
                         const Session& session) {
  Result<LiveStats> first = process.get_stats();
  if (!first.ok()) return finish(first.status(), session);
  const Status result = watch(process, arguments, session, *std::move(first));
  return result.ok() ? ExitCode::kSuccess : finish(result, session);
}

}  // namespace
}  // namespace ashlar
