// SPDX-License-Identifier: Apache-2.0
//
// `ashlar diff`: compares the live allocations of two recordings by stack, size and stream.
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
#include "cli/recording/recorded_run.h"
#include "cli/subcommand.h"
#include "cli/terminal/json_output.h"
#include "cli/terminal/stack_text.h"
#include "cli/terminal/style.h"
#include "cli/terminal/table.h"

namespace ashlar {
namespace {

struct DiffArguments {
  std::string base{};
  std::string now{};
  std::optional<uint64_t> device{};
  std::string at = "end";
  size_t top = 10;
  StackDetail stacks = StackDetail::kUserCode;
  bool json = false;
};

CommandFunction prepare_diff(CLI::App& parser);
ExitCode run_diff(const DiffArguments& arguments, const Session& session);
std::string diff_as_text(const ComparedRuns& compared, const DiffArguments& arguments);

}  // namespace

const Subcommand kDiff = {
    .name = "diff",
    .summary = "Compare live allocations of two snapshots by stack, size, stream",
    .prepare = prepare_diff,
};

namespace {

CommandFunction prepare_diff(CLI::App& parser) {
  auto arguments = std::make_shared<DiffArguments>();
  parser.add_option("BASE", arguments->base, kSnapshotHelp)->type_name("FILE")->required();
  parser.add_option("NEW", arguments->now, "Snapshot to compare with it")
      ->type_name("FILE")
      ->required();
  parser.add_option("--at", arguments->at, "end, or peak: the peak of reserved bytes in each run")
      ->check(CLI::IsMember({"end", "peak"}))
      ->capture_default_str();
  parser.add_option("--device", arguments->device, kDeviceHelp);
  parser.add_option("--top", arguments->top, "Number of rows per table; --json prints all")
      ->capture_default_str();
  add_stacks_option(parser, arguments->stacks);
  add_json_flag(parser, arguments->json);
  return [arguments](const Session& session) { return run_diff(*arguments, session); };
}

ExitCode run_diff(const DiffArguments& arguments, const Session& session) {
  const Result<DeviceRecording> base = read_run(arguments.base, arguments.device);
  if (!base.ok()) return print_failure(base.status(), session);
  const Result<DeviceRecording> now = read_run(arguments.now, arguments.device);
  if (!now.ok()) return print_failure(now.status(), session);
  const ComparisonPoint at = arguments.at == "end" ? ComparisonPoint::kEnd : ComparisonPoint::kPeak;
  const ComparedRuns compared = compare_runs(*base, *now, {.at = at, .stacks = arguments.stacks});
  session.console.print(arguments.json ? format_json(diff_json(compared))
                                       : diff_as_text(compared, arguments));
  return ExitCode::kSuccess;
}

std::string difference_text(size_t base_bytes, size_t new_bytes) {
  if (new_bytes == base_bytes) return "0 B";
  return new_bytes > base_bytes ? "+" + format_bytes(new_bytes - base_bytes)
                                : "-" + format_bytes(base_bytes - new_bytes);
}

std::string sides_as_text(const ComparedRuns& compared) {
  Table table({{}, {"bytes", Align::kRight}, {"count", Align::kRight}, {"snapshot"}});
  for (const ComparedSide* side : {&compared.base, &compared.now}) {
    table.add(
        {side == &compared.base ? "base" : "new", format_bytes(side->bytes()),
         group_digits(side->selected.size()),
         fmt::format("{}, device {}", printable(side->run.name()), side->run.device().value())});
  }
  table.add({"difference", difference_text(compared.base.bytes(), compared.now.bytes()), "", ""});
  return table.to_text() + other_devices_text(compared.base.run) +
         other_devices_text(compared.now.run);
}

// Formats rows as a table. `label_lines` returns the label of a row as one or more lines.
template <typename LabelLines>
std::string rows_as_text(const std::vector<DiffRow>& rows, size_t top, LabelLines label_lines) {
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
    const std::vector<std::string> lines = label_lines(row.key);
    table.add({difference_text(row.base_bytes, row.new_bytes), format_bytes(row.base_bytes),
               format_bytes(row.new_bytes),
               fmt::format("{} to {}", group_digits(row.base_count), group_digits(row.new_count)),
               lines[0]});
    for (size_t line = 1; line < lines.size(); ++line) table.add({"", "", "", "", lines[line]});
  }
  std::string text = shown == 0 ? "" : table.to_text();
  const size_t more = rows.size() - equal - shown;
  if (more > 0) text += fmt::format("  and {} more (see --top)\n", group_digits(more));
  if (equal > 0) text += fmt::format("  {} unchanged\n", group_digits(equal));
  return text.empty() ? "  none\n" : text;
}

std::string diff_as_text(const ComparedRuns& compared, const DiffArguments& arguments) {
  const auto stack = [&](uint64_t key) {
    return stack_lines_of(compared.stacks, static_cast<uint32_t>(key), arguments.stacks);
  };
  const auto size_class = [](uint64_t key) {
    return std::vector<std::string>{fmt::format("from {}", format_bytes(size_t{1} << key))};
  };
  const auto stream = [](uint64_t key) {
    return std::vector<std::string>{key == 0 ? "the default stream"
                                             : fmt::format("stream #{}", key)};
  };
  const bool is_at_end = arguments.at == "end";
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}",
                     bold(is_at_end ? "Live allocations at the end"
                                    : "Live allocations at the peak of reserved bytes"),
                     sides_as_text(compared), bold("By stack"),
                     rows_as_text(compared.diff.by_stack, arguments.top, stack), bold("By size"),
                     rows_as_text(compared.diff.by_size_class, arguments.top, size_class),
                     bold("By stream"),
                     rows_as_text(compared.diff.by_stream, arguments.top, stream)) +
         lines_note(compared.stacks);
}

}  // namespace
}  // namespace ashlar
