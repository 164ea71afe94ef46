// SPDX-License-Identifier: Apache-2.0
//
// `ashlar diff`: what two recorded runs hold, side by side: by stack, by size and by stream.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/diff.h"
#include "analysis/report_json/diff_json.h"
#include "base/units.h"
#include "cli/json_answer.h"
#include "cli/recorded_run.h"
#include "cli/stack_text.h"
#include "cli/subcommand.h"
#include "cli/table.h"

namespace ashlar {
namespace {

constexpr size_t kFramesShown = 3;

struct DiffOptions {
  std::string base{};
  std::string now{};
  std::optional<uint64_t> device{};
  std::string at = "end";
  size_t top = 10;
  bool json = false;
};

Run prepare_diff(CLI::App& parser);
ExitCode run_diff(const DiffOptions& asked, const Session& session);
std::string diff_as_text(const ComparedRuns& compared, const DiffOptions& asked);

}  // namespace

const Subcommand kDiff = {
    .name = "diff",
    .summary = "Compare what two snapshots hold, by stack, by size and by stream",
    .prepare = prepare_diff,
};

namespace {

Run prepare_diff(CLI::App& parser) {
  // Shared by the parser, which fills it in, and the function that runs afterwards.
  auto asked = std::make_shared<DiffOptions>();
  parser.add_option("BASE", asked->base, kSnapshotHelp)->required();
  parser.add_option("NEW", asked->now, "Snapshot to compare with it")->required();
  parser.add_option("--at", asked->at, "end, or peak: when each had the most requested bytes")
      ->check(CLI::IsMember({"end", "peak"}))
      ->capture_default_str();
  parser.add_option("--device", asked->device, kDeviceHelp);
  parser.add_option("--top", asked->top, "Rows to show of each table; --json has all")
      ->capture_default_str();
  add_json_flag(parser, asked->json);
  return [asked](const Session& session) { return run_diff(*asked, session); };
}

ExitCode run_diff(const DiffOptions& asked, const Session& session) {
  const Result<DeviceRecording> base = read_run(asked.base, asked.device);
  if (!base.ok()) return complain(base.status(), session);
  const Result<DeviceRecording> now = read_run(asked.now, asked.device);
  if (!now.ok()) return complain(now.status(), session);
  const CompareAt at = asked.at == "end" ? CompareAt::kEnd : CompareAt::kPeak;
  const ComparedRuns compared = compare_runs(*base, *now, at);
  session.console.print(asked.json ? json_answer(diff_json(compared))
                                   : diff_as_text(compared, asked));
  return ExitCode::kDone;
}

// --- for people ------------------------------------------------------------------------------

std::string difference_text(size_t base_bytes, size_t new_bytes) {
  if (new_bytes == base_bytes) return "0 B";
  return new_bytes > base_bytes ? "+" + format_bytes(new_bytes - base_bytes)
                                : "-" + format_bytes(base_bytes - new_bytes);
}

std::string sides_as_text(const ComparedRuns& compared) {
  Table table({{}, {"bytes", Align::kRight}, {"count", Align::kRight}, {"of"}});
  for (const ComparedSide* side : {&compared.base, &compared.now}) {
    table.add(
        {side == &compared.base ? "base" : "new", format_bytes(side->bytes()),
         group_digits(side->which.size()),
         fmt::format("{}, device {}", printable(side->run.name()), side->run.device().value())});
  }
  table.add({"difference", difference_text(compared.base.bytes(), compared.now.bytes()), "", ""});
  return table.to_text();
}

// `lines_of`: what a row is about, on one line or on several.
template <typename LinesOf>
std::string rows_as_text(const std::vector<DiffRow>& rows, size_t top, LinesOf lines_of) {
  Table table({{"difference", Align::kRight},
               {"base", Align::kRight},
               {"new", Align::kRight},
               {"counts", Align::kRight},
               {}});
  size_t shown = 0;
  size_t equal = 0;
  for (const DiffRow& row : rows) {
    if (row.difference() == 0) ++equal;
    if (row.difference() == 0 || shown == top) continue;
    ++shown;
    const std::vector<std::string> lines = lines_of(row.key);
    table.add({difference_text(row.base_bytes, row.new_bytes), format_bytes(row.base_bytes),
               format_bytes(row.new_bytes),
               fmt::format("{} to {}", group_digits(row.base_count), group_digits(row.new_count)),
               lines[0]});
    for (size_t line = 1; line < lines.size(); ++line) table.add({"", "", "", "", lines[line]});
  }
  std::string text = shown == 0 ? "" : table.to_text();
  const size_t more = rows.size() - equal - shown;
  if (more > 0) text += fmt::format("  and {} more (--top shows them)\n", group_digits(more));
  if (equal > 0) text += fmt::format("  {} without a difference\n", group_digits(equal));
  return text.empty() ? "  nothing\n" : text;
}

std::string diff_as_text(const ComparedRuns& compared, const DiffOptions& asked) {
  const auto stack = [&](uint64_t key) {
    return stack_lines(compared.stacks.frames(static_cast<uint32_t>(key)), kFramesShown);
  };
  const auto size_class = [](uint64_t key) {
    return std::vector<std::string>{fmt::format("from {}", format_bytes(size_t{1} << key))};
  };
  const auto stream = [](uint64_t key) {
    return std::vector<std::string>{key == 0 ? "the default stream"
                                             : fmt::format("stream {} in order", key)};
  };
  return fmt::format("What is there {}\n{}\nBy stack\n{}\nBy size\n{}\nBy stream\n{}",
                     asked.at == "end" ? "at the end" : "when the most is requested",
                     sides_as_text(compared),
                     rows_as_text(compared.diff.by_stack, asked.top, stack),
                     rows_as_text(compared.diff.by_size_class, asked.top, size_class),
                     rows_as_text(compared.diff.by_stream, asked.top, stream));
}

}  // namespace
}  // namespace ashlar
