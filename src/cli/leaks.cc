// SPDX-License-Identifier: Apache-2.0
//
// `ashlar leaks`: whose live bytes keep growing over a recorded run, and how fast.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "analysis/leaks.h"
#include "analysis/report_json/leaks_json.h"
#include "analysis/stack_index.h"
#include "base/units.h"
#include "cli/json_answer.h"
#include "cli/recorded_run.h"
#include "cli/stack_text.h"
#include "cli/subcommand.h"
#include "cli/table.h"

namespace ashlar {
namespace {

constexpr size_t kFramesShown = 3;

struct LeaksOptions {
  std::string file{};
  std::optional<uint64_t> device{};
  size_t top = 10;
  bool json = false;
};

Run prepare_leaks(CLI::App& parser);
ExitCode run_leaks(const LeaksOptions& asked, const Session& session);
std::string leaks_as_text(const LeakReport& leaks, const StackIndex& stacks, size_t top);

}  // namespace

const Subcommand kLeaks = {
    .name = "leaks",
    .summary = "Find the stacks whose live bytes keep growing, and how fast they do",
    .prepare = prepare_leaks,
};

namespace {

Run prepare_leaks(CLI::App& parser) {
  // Shared by the parser, which fills it in, and the function that runs afterwards.
  auto asked = std::make_shared<LeaksOptions>();
  parser.add_option("FILE", asked->file, kSnapshotHelp)->required();
  parser.add_option("--device", asked->device, kDeviceHelp);
  parser.add_option("--top", asked->top, "Rows to show; --json has all")->capture_default_str();
  add_json_flag(parser, asked->json);
  parser.footer(
      "Of each stack, the least live bytes in each of 32 parts of the trace are its floor. A leak "
      "is\n"
      "a stack whose floor is higher at the end than at the start, rose in at least four parts "
      "above\n"
      "all that was before, and lies close to a straight line: set-up, steady use and what comes "
      "and\n"
      "goes are none. Without stacks, allocations of about the same size on one stream are taken\n"
      "together.");
  return [asked](const Session& session) { return run_leaks(*asked, session); };
}

ExitCode run_leaks(const LeaksOptions& asked, const Session& session) {
  const Result<DeviceRecording> run = read_run(asked.file, asked.device);
  if (!run.ok()) return complain(run.status(), session);
  const Recording& recording = run->recording();
  const LeakReport leaks = find_leaks(run->trace(), run->allocations(), recording.stack_numbers());
  if (asked.json) {
    session.console.print(json_answer(leaks_json(*run, leaks)));
  } else {
    const std::string plot = plot_of(*run, terminal_in(session.environment));
    session.console.print(fmt::format("{}\n{}{}{}", title_of(*run), plot, plot.empty() ? "" : "\n",
                                      leaks_as_text(leaks, recording.stacks(), asked.top)));
  }
  return ExitCode::kDone;
}

// --- for people ------------------------------------------------------------------------------

// Of what a leak is, of one or of several: "stacks", "sizes and streams".
std::string groups_text(const LeakReport& leaks, size_t count) {
  const std::string noun = leaks.has_stacks ? "stack" : "group of one size and stream";
  if (count == 1) return "1 " + noun;
  return fmt::format("{} {}", group_digits(count),
                     leaks.has_stacks ? "stacks" : "groups of one size and stream");
}

std::string rate_text(double bytes) {
  return format_bytes(static_cast<size_t>(std::max(bytes, 0.0)));
}

std::string origin_text(const Leak& leak) {
  const size_t from = size_t{1} << leak.group.size_class;
  return fmt::format("sizes from {}, stream {}", format_bytes(from), leak.group.stream.value());
}

std::string leaks_as_text(const LeakReport& leaks, const StackIndex& stacks, size_t top) {
  std::string text;
  if (leaks.leaks.empty()) {
    text = fmt::format("Nothing keeps growing ({} looked at).\n",
                       groups_text(leaks, leaks.group_count));
  } else {
    size_t growth_bytes = 0;
    for (const Leak& leak : leaks.leaks) growth_bytes += leak.growth_bytes;
    text = fmt::format("{} of {} keep{} growing: by {} since the start.\n\n",
                       group_digits(leaks.leaks.size()), groups_text(leaks, leaks.group_count),
                       leaks.leaks.size() == 1 ? "s" : "", format_bytes(growth_bytes));
    Table table({{"growth", Align::kRight},
                 {"per second", Align::kRight},
                 {"per 1000 entries", Align::kRight},
                 {"live now", Align::kRight},
                 {"count", Align::kRight},
                 {"fit", Align::kRight},
                 {"made by"}});
    for (size_t i = 0; i < std::min(top, leaks.leaks.size()); ++i) {
      const Leak& leak = leaks.leaks[i];
      const std::vector<std::string> lines =
          leaks.has_stacks ? stack_lines(stacks.frames(leak.group.stack), kFramesShown)
                           : std::vector<std::string>{origin_text(leak)};
      table.add({format_bytes(leak.growth_bytes),
                 leak.bytes_per_second ? rate_text(*leak.bytes_per_second) : "-",
                 rate_text(leak.bytes_per_1000_entries), format_bytes(leak.live_bytes),
                 group_digits(leak.live_count), fmt::format("{:.2f}", leak.r_squared), lines[0]});
      for (size_t line = 1; line < lines.size(); ++line) {
        table.add({"", "", "", "", "", "", lines[line]});
      }
    }
    text += table.to_text();
    if (leaks.leaks.size() > top) {
      text +=
          fmt::format("  and {} more (--top shows them)\n", group_digits(leaks.leaks.size() - top));
    }
  }
  if (!leaks.has_stacks) {
    text += "\nThe trace has no stacks; recorded with stacks, it would tell who allocates.\n";
  }
  return text;
}

}  // namespace
}  // namespace ashlar
