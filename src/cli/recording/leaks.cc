// SPDX-License-Identifier: Apache-2.0
//
// `ashlar leaks`: finds the lines whose memory grows with every iteration.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include "analysis/report_json/leaks_json.h"
#include "analysis/stack_index.h"
#include "analysis/training/training_analysis.h"
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
  StackDetail stacks = StackDetail::kUserCode;
  bool json = false;
};

CommandFunction prepare_leaks(CLI::App& parser);
ExitCode run_leaks(const LeaksArguments& arguments, const Session& session);
std::string leaks_as_text(const DeviceRecording& run, const LeakReport& leaks,
                          const LeaksArguments& arguments);

}  // namespace

const Subcommand kLeaks = {
    .name = "leaks",
    .summary = "Find lines whose memory grows with every iteration",
    .prepare = prepare_leaks,
};

namespace {

CommandFunction prepare_leaks(CLI::App& parser) {
  auto arguments = std::make_shared<LeaksArguments>();
  parser.add_option("FILE", arguments->file, kSnapshotHelp)->type_name("FILE")->required();
  parser.add_option("--device", arguments->device, kDeviceHelp);
  parser.add_option("--top", arguments->top, "Number of rows to show; --json prints all")
      ->capture_default_str();
  add_stacks_option(parser, arguments->stacks);
  add_json_flag(parser, arguments->json);
  parser.footer(
      "Compares at least three iterations of a training or inference loop, which are\n"
      "found from annotations, stacks of optimizer steps or repeated allocations. A\n"
      "stack leaks if iterations keep allocations again and again that later ones do\n"
      "not free, or if each iteration replaces an allocation by a larger one. Without\n"
      "stacks, allocations of similar size on one stream form a group.");
  return [arguments](const Session& session) { return run_leaks(*arguments, session); };
}

ExitCode run_leaks(const LeaksArguments& arguments, const Session& session) {
  const Result<DeviceRecording> run = read_run(arguments.file, arguments.device);
  if (!run.ok()) return print_failure(run.status(), session);
  if (!run->has_history()) {
    return print_no_history(*run, HistoryQuestion::kFindLeaks, arguments.json, session);
  }
  const LeakReport leaks = leaks_of(*run, arguments.stacks);
  if (arguments.json) {
    session.console.print(format_json(leaks_json(*run, leaks, arguments.stacks)));
  } else {
    const std::string plot = plot_of(*run, detect_terminal(session.environment));
    session.console.print(fmt::format("{}\n{}{}{}", title_of(*run), plot, plot.empty() ? "" : "\n",
                                      leaks_as_text(*run, leaks, arguments)));
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
  return format_bytes(static_cast<size_t>(std::llround(bytes)));
}

std::string origin_text(const Leak& leak) {
  const size_t from = size_t{1} << leak.group.size_class;
  return fmt::format("sizes from {}, stream {}", format_bytes(from), leak.group.stream.value());
}

Table leak_table(const LeakReport& leaks, const StackIndex& stacks,
                 const LeaksArguments& arguments) {
  Table table({{"per iteration", Align::kRight},
               {"growth", Align::kRight},
               {"live at end", Align::kRight},
               {"count", Align::kRight},
               {"allocated by"}});
  for (size_t i = 0; i < std::min(arguments.top, leaks.leaks.size()); ++i) {
    const Leak& leak = leaks.leaks[i];
    const std::vector<std::string> lines =
        leaks.has_stacks ? stack_lines_of(stacks, leak.group.stack, arguments.stacks)
                         : std::vector<std::string>{origin_text(leak)};
    table.add({rate_text(leak.bytes_per_iteration), format_bytes(leak.growth_bytes),
               format_bytes(leak.live_bytes), group_digits(leak.live_count), lines[0]});
    for (size_t line = 1; line < lines.size(); ++line) {
      table.add({"", "", "", "", lines[line]});
    }
  }
  return table;
}

std::string leaks_as_text(const DeviceRecording& run, const LeakReport& leaks,
                          const LeaksArguments& arguments) {
  const size_t top = arguments.top;
  const StackIndex& stacks = run.recording().stacks(arguments.stacks);
  std::string text;
  if (!leaks.has_enough_iterations()) {
    text = fmt::format("Cannot tell whether memory leaks: {}.\n", leaks.problem);
  } else {
    const std::string compared =
        fmt::format("{} iterations (found from {})", group_digits(leaks.iteration_count),
                    describe(training_of(run).iterations.source));
    if (leaks.leaks.empty()) {
      text = fmt::format("No leak found in {} over {}.\n", groups_text(leaks, leaks.group_count),
                         compared);
    } else {
      double bytes_per_iteration = 0;
      for (const Leak& leak : leaks.leaks) bytes_per_iteration += leak.bytes_per_iteration;
      text =
          fmt::format("{} of {} keep{} growing over {}:\n{} per iteration.\n\n",
                      group_digits(leaks.leaks.size()), groups_text(leaks, leaks.group_count),
                      leaks.leaks.size() == 1 ? "s" : "", compared, rate_text(bytes_per_iteration));
      text += leak_table(leaks, stacks, arguments).to_text();
      if (leaks.leaks.size() > top) {
        text += fmt::format("  and {} more (see --top)\n", group_digits(leaks.leaks.size() - top));
      }
    }
  }
  if (!leaks.has_stacks && run.has_history()) {
    text += "\nThe trace has no stacks. Record with stacks to see which code allocates.\n";
  }
  return text + lines_note(stacks);
}

}  // namespace
}  // namespace ashlar
