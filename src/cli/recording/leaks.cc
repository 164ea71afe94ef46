// SPDX-License-Identifier: Apache-2.0
//
// `ashlar leaks`: finds the stacks whose live bytes keep growing, and their rate.
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
#include "cli/recording/recorded_run.h"
#include "cli/subcommand.h"
#include "cli/terminal/json_output.h"
#include "cli/terminal/stack_text.h"
#include "cli/terminal/table.h"

namespace ashlar {
namespace {

struct LeaksArguments {
  std::string file{};
  std::optional<uint64_t> device{};
  size_t top = 10;
  bool json = false;
};

CommandFunction prepare_leaks(CLI::App& parser);
ExitCode run_leaks(const LeaksArguments& arguments, const Session& session);
std::string leaks_as_text(const LeakReport& leaks, const StackIndex& stacks, size_t top);

}  // namespace

const Subcommand kLeaks = {
    .name = "leaks",
    .summary = "Find stacks whose live bytes keep growing, and how fast",
    .prepare = prepare_leaks,
};

namespace {

CommandFunction prepare_leaks(CLI::App& parser) {
  auto arguments = std::make_shared<LeaksArguments>();
  parser.add_option("FILE", arguments->file, kSnapshotHelp)->type_name("FILE")->required();
  parser.add_option("--device", arguments->device, kDeviceHelp);
  parser.add_option("--top", arguments->top, "Number of rows to show; --json prints all")
      ->capture_default_str();
  add_json_flag(parser, arguments->json);
  parser.footer(
      "The trace is divided into 32 parts, and the minimum of a stack's live bytes is\n"
      "taken in each. A stack leaks if this minimum\n"
      "  - is higher at the end than at the start,\n"
      "  - reaches a new maximum in at least four parts, and\n"
      "  - is close to a straight line.\n"
      "Set-up, steady state and periodic use are therefore not reported.\n"
      "Without stacks, allocations of similar size on one stream form a group.");
  return [arguments](const Session& session) { return run_leaks(*arguments, session); };
}

ExitCode run_leaks(const LeaksArguments& arguments, const Session& session) {
  const Result<DeviceRecording> run = read_run(arguments.file, arguments.device);
  if (!run.ok()) return print_failure(run.status(), session);
  const Recording& recording = run->recording();
  const LeakReport leaks = find_leaks(run->trace(), run->allocations(), recording.stack_numbers());
  if (arguments.json) {
    session.console.print(format_json(leaks_json(*run, leaks)));
  } else {
    const std::string plot = plot_of(*run, detect_terminal(session.environment));
    session.console.print(fmt::format("{}\n{}{}{}", title_of(*run), plot, plot.empty() ? "" : "\n",
                                      leaks_as_text(leaks, recording.stacks(), arguments.top)));
  }
  return ExitCode::kSuccess;
}

// Formats a count with its noun: "1 stack", "12 stacks", "3 groups of similar size and one stream".
std::string groups_text(const LeakReport& leaks, size_t count) {
  const std::string noun = leaks.has_stacks ? "stack" : "group of similar size and one stream";
  if (count == 1) return "1 " + noun;
  return fmt::format("{} {}", group_digits(count),
                     leaks.has_stacks ? "stacks" : "groups of similar size and one stream");
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
    text = fmt::format("No leak found in {}.\n", groups_text(leaks, leaks.group_count));
  } else {
    size_t growth_bytes = 0;
    for (const Leak& leak : leaks.leaks) growth_bytes += leak.growth_bytes;
    text = fmt::format("{} of {} keep{} growing: {} since the start.\n\n",
                       group_digits(leaks.leaks.size()), groups_text(leaks, leaks.group_count),
                       leaks.leaks.size() == 1 ? "s" : "", format_bytes(growth_bytes));
    Table table({{"growth", Align::kRight},
                 {"per second", Align::kRight},
                 {"per 1000 entries", Align::kRight},
                 {"live at end", Align::kRight},
                 {"count", Align::kRight},
                 {"fit", Align::kRight},
                 {"allocated by"}});
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
      text += fmt::format("  and {} more (see --top)\n", group_digits(leaks.leaks.size() - top));
    }
  }
  if (!leaks.has_stacks) {
    text += "\nThe trace has no stacks. Record with stacks to see which code allocates.\n";
  }
  return text;
}

}  // namespace
}  // namespace ashlar
