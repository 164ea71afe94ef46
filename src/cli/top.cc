// SPDX-License-Identifier: Apache-2.0
//
// `ashlar top`: the counters of a running process, again and again; or which processes can be
// watched.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "base/units.h"
#include "cli/json_answer.h"
#include "cli/screen.h"
#include "cli/stack_text.h"
#include "cli/subcommand.h"
#include "cli/table.h"
#include "cli/top_text.h"
#include "cli/watched_process.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::steady_clock;

constexpr size_t kMostSamples = 2'000;

struct TopRequest {
  pid_t pid = 0;  // 0: which there are
  double interval_seconds = 1;
  bool once = false;
  bool json = false;
};

Run prepare_top(CLI::App& parser);
ExitCode run_top(const TopRequest& asked, const Session& session);

}  // namespace

const Subcommand kTop = {
    .name = "top",
    .summary = "Watch the memory of a running process, or list those that can be watched",
    .prepare = prepare_top,
};

namespace {

Run prepare_top(CLI::App& parser) {
  // Shared by the parser, which fills it in, and the function that runs afterwards.
  auto asked = std::make_shared<TopRequest>();
  parser
      .add_option(
          "PID", asked->pid,
          "A process that was started with ASHLAR_LIVE=on, or shows itself by its own will; "
          "without one, those that there are")
      ->check(CLI::Range(1, 1 << 30));
  parser.add_option("--interval", asked->interval_seconds, "Seconds between two looks")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  parser.add_flag("--once", asked->once, "Look once, and print lines")->disable_flag_override();
  add_json_flag(parser, asked->json);
  return [asked](const Session& session) { return run_top(*asked, session); };
}

ExitCode list_processes(const TopRequest& asked, const Session& session);
ExitCode print_json(WatchedProcess& process, const Session& session);
ExitCode print_lines(WatchedProcess& process, const TopRequest& asked, const Session& session);
ExitCode fill_screen(WatchedProcess& process, const TopRequest& asked, const Session& session);

ExitCode run_top(const TopRequest& asked, const Session& session) {
  if (asked.pid == 0) return list_processes(asked, session);
  WatchedProcess process(asked.pid);
  if (asked.json) return print_json(process, session);
  const bool fills =
      !asked.once && Screen::is_possible(session.environment.value("TERM").value_or(""));
  return fills ? fill_screen(process, asked, session) : print_lines(process, asked, session);
}

// --- which there are -----------------------------------------------------------------------------

ExitCode list_processes(const TopRequest& asked, const Session& session) {
  const Result<std::vector<Watchable>> all = watchable_processes();
  if (!all.ok()) return complain(all.status(), session);
  Json list = Json::array();
  Table table({{"process", Align::kRight},
               {"program"},
               {"allocators", Align::kRight},
               {"reserved", Align::kRight},
               {"allocated", Align::kRight},
               {"requested", Align::kRight},
               {""}});
  for (const Watchable& each : *all) {
    if (!each.numbers.ok()) {
      list.push_back({{"pid", each.pid}, {"error", each.numbers.status().message()}});
      table.add(
          {std::to_string(each.pid), "-", "-", "-", "-", "-", each.numbers.status().message()});
      continue;
    }
    const LiveNumbers& numbers = *each.numbers;
    list.push_back(live_numbers_json(numbers, each.pid));
    table.add({std::to_string(each.pid), printable(numbers.program),
               std::to_string(numbers.allocators.size()),
               format_bytes(numbers.total(&AllocatorNumbers::reserved_bytes)),
               format_bytes(numbers.total(&AllocatorNumbers::allocated_bytes)),
               format_bytes(numbers.total(&AllocatorNumbers::requested_bytes)),
               printable(numbers.trouble)});
  }
  if (asked.json) {
    session.console.print(json_answer({{"processes", std::move(list)}}));
  } else if (all->empty()) {
    session.console.complain(
        "no process of this user can be watched: start one with ASHLAR_LIVE=on, or let it make an "
        "ashlar::LiveServer");
  } else {
    session.console.print(table.to_text());
  }
  return all->empty() ? ExitCode::kNo : ExitCode::kDone;
}

// --- one of them ---------------------------------------------------------------------------------

ExitCode print_json(WatchedProcess& process, const Session& session) {
  const Result<LiveNumbers> numbers = process.look();
  if (!numbers.ok()) return complain(numbers.status(), session);
  session.console.print(json_answer(live_numbers_json(*numbers, process.pid())));
  return ExitCode::kDone;
}

steady_clock::duration interval_of(const TopRequest& asked) {
  return std::chrono::duration_cast<steady_clock::duration>(
      std::chrono::duration<double>(asked.interval_seconds));
}

// That a process which was watched has ended is no failure.
ExitCode finish(const Status& failure, const Session& session) {
  session.console.complain(failure.message());
  return failure.is(StatusKind::kPeerLost) ? ExitCode::kDone : exit_code_for(failure);
}

void keep(LiveSamples& samples, LiveNumbers numbers) {
  samples.push_back(std::move(numbers));
  if (samples.size() > kMostSamples) samples.pop_front();
}

ExitCode print_lines(WatchedProcess& process, const TopRequest& asked, const Session& session) {
  LiveSamples samples;
  while (true) {
    Result<LiveNumbers> numbers = process.look();
    if (!numbers.ok()) return finish(numbers.status(), session);
    if (samples.empty() && !numbers->trouble.empty()) {
      session.console.complain(printable(numbers->trouble));
    }
    if (samples.empty()) session.console.print(top_headings());
    keep(samples, *std::move(numbers));
    session.console.print(top_lines(samples));
    if (asked.once || !session.console.has_reader()) return ExitCode::kDone;
    std::this_thread::sleep_for(interval_of(asked));
  }
}

// Looks until somebody has had enough; a failure ends it, except that the process stands still.
Status watch(WatchedProcess& process, const TopRequest& asked, const Session& session,
             LiveNumbers first) {
  Result<std::unique_ptr<Screen>> screen = Screen::open();
  if (!screen.ok()) return screen.status();
  LiveSamples samples;
  keep(samples, std::move(first));
  TopPage page;
  page.pid = process.pid();
  auto next_look = steady_clock::now() + interval_of(asked);
  while (true) {
    (*screen)->show(top_screen(samples, page, terminal_in(session.environment)));
    switch ((*screen)->wait(next_look)) {
      case Screen::Event::kEnd: return {};
      case Screen::Event::kRedraw: continue;
      case Screen::Event::kKey:
        if ((*screen)->key() == 'q' || (*screen)->key() == 'Q') return {};
        continue;
      case Screen::Event::kTime: break;
    }
    Result<LiveNumbers> numbers = process.look();
    next_look = steady_clock::now() + interval_of(asked);
    if (numbers.ok()) {
      keep(samples, *std::move(numbers));
      page.note.clear();
    } else if (numbers.status().is(StatusKind::kTimeout)) {
      page.note = "the process does not answer: it may be stopped; q quits";
    } else {
      return numbers.status();
    }
  }
}

ExitCode fill_screen(WatchedProcess& process, const TopRequest& asked, const Session& session) {
  Result<LiveNumbers> first = process.look();
  if (!first.ok()) return finish(first.status(), session);
  const Status watched = watch(process, asked, session, *std::move(first));
  return watched.ok() ? ExitCode::kDone : finish(watched, session);
}

}  // namespace
}  // namespace ashlar
