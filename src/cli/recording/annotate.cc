// SPDX-License-Identifier: Apache-2.0
//
// `ashlar annotate`: the memory of each line of the user's code, next to the source.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/frame_kind.h"
#include "analysis/report_json/annotate_json.h"
#include "analysis/report_json/report_json.h"
#include "analysis/training/source_lines.h"
#include "base/units.h"
#include "cli/recording/recorded_run.h"
#include "cli/subcommand.h"
#include "cli/terminal/json_output.h"
#include "cli/terminal/stack_text.h"
#include "cli/terminal/style.h"
#include "cli/terminal/terminal.h"
#include "files/source_folders.h"

namespace ashlar {
namespace {

constexpr size_t kMinColumns = 120;  // more if the terminal is wider

struct AnnotateArguments {
  std::string file{};
  std::vector<std::string> sources{};
  std::optional<uint64_t> device{};
  size_t top = 20;
  size_t context = 2;
  bool json = false;
};

CommandFunction prepare_annotate(CLI::App& parser);
ExitCode run_annotate(const AnnotateArguments& arguments, const Session& session);

}  // namespace

const Subcommand kAnnotateSource = {
    .name = "annotate",
    .summary = "Show the memory of each line of your code, next to the source",
    .prepare = prepare_annotate,
};

namespace {

CommandFunction prepare_annotate(CLI::App& parser) {
  auto arguments = std::make_shared<AnnotateArguments>();
  parser.add_option("FILE", arguments->file, kSnapshotHelp)->type_name("FILE")->required();
  add_source_option(parser, arguments->sources);
  parser.add_option("--device", arguments->device, kDeviceHelp);
  parser.add_option("--top", arguments->top, "Number of lines to show; --json prints all")
      ->capture_default_str();
  parser
      .add_option("--context", arguments->context, "Source lines to show around each listed line")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  add_json_flag(parser, arguments->json);
  parser.footer(
      "\"at peak\" and \"allocated\" count the allocations that a line makes itself or by\n"
      "calling libraries. \"with calls\" adds those of your functions that it calls.\n"
      "\"category\" is the one with the most bytes at the peak. Source files are found in\n"
      "--source by the end of their recorded path, and read only there, because\n"
      "recordings are untrusted.");
  return [arguments](const Session& session) { return run_annotate(*arguments, session); };
}

// A line of user code with its file.
struct ShownLine {
  const SourceFile* file = nullptr;
  const SourceLine* line = nullptr;
};

// Returns the lines with the most bytes at the peak, then with the most allocated bytes.
std::vector<ShownLine> largest_lines(const SourceLines& found, size_t top) {
  std::vector<ShownLine> lines;
  for (const SourceFile& file : found.files) {
    for (const SourceLine& line : file.lines) {
      if (line.own.allocation_count + line.own.count_at_peak > 0) lines.push_back({&file, &line});
    }
  }
  const auto weight = [](const ShownLine& each) {
    return std::pair(each.line->own.bytes_at_peak, each.line->own.allocated_bytes);
  };
  std::stable_sort(lines.begin(), lines.end(),
                   [&](const ShownLine& a, const ShownLine& b) { return weight(a) > weight(b); });
  if (lines.size() > top) lines.resize(top);
  return lines;
}

// Formats bytes for a column. Leaves 0 out, so that other numbers stand out.
std::string cell(size_t bytes) { return bytes == 0 ? "" : format_bytes(bytes); }

// Returns the category with the most bytes at the peak; empty if the line has no bytes at the peak.
std::string_view main_category(const SourceLine& line) {
  const CategoryBytes& bytes = line.categories_at_peak;
  const auto most = std::max_element(bytes.begin(), bytes.end());
  return *most == 0 ? "" : name(static_cast<Category>(most - bytes.begin()));
}

// Options that all files share.
struct TextStyle {
  size_t context = 0;       // source lines around each line that is shown
  size_t max_columns = 0;   // longer lines are cut off
  bool has_history = true;  // the recording contains allocations
};

const char* moment_of(const TextStyle& style) {
  return style.has_history ? "at the peak" : "in the snapshot";
}

// Formats the lines of one file.
class FileText {
 public:
  FileText(const SourceFile& file, const SourceFolders& folders, const TextStyle& style)
      : file_(file), style_(style), category_columns_(std::string_view("category").size()) {
    if (!folders.is_empty()) source_.emplace(read_source(file, folders));
    for (const SourceLine& line : file.lines) {
      if (line.line > 0) by_number_.emplace(line.line, &line);
      category_columns_ = std::max(category_columns_, main_category(line).size());
    }
  }

  std::string format(const std::vector<const SourceLine*>& lines) const {
    std::string text = heading();
    if (has_source()) return text + lines_with_source(lines);
    for (const SourceLine* line : lines) text += line_with_function(*line);
    return text;
  }

 private:
  bool has_source() const { return source_ && source_->ok(); }

  std::string heading() const {
    std::string title = file_.path.empty() ? "(unknown file)" : printable(file_.path);
    title += fmt::format(": {} {}", format_bytes(file_.own.bytes_at_peak), moment_of(style_));
    if (style_.has_history) {
      title += fmt::format(", {} allocated", format_bytes(file_.own.allocated_bytes));
    }
    std::string text = bold(title) + "\n";
    if (has_source()) text += fmt::format("  Source: {}\n", printable((*source_)->path));
    if (source_ && !has_source()) {
      text += fmt::format("  No source: {}\n", printable(source_->status().message()));
    }
    text += fmt::format("  {:>10}  {:>10}", style_.has_history ? "at peak" : "live", "with calls");
    if (style_.has_history) text += fmt::format("  {:>10}", "allocated");
    return text + "  category\n";
  }

  std::string line_with_function(const SourceLine& line) const {
    const std::string number = line.line > 0 ? std::to_string(line.line) : "?";
    const std::string function(line.function.empty() ? "?" : function_name(line.function));
    return line_text(&line, number, function);
  }

  // Lines without a number come first.
  std::string lines_with_source(const std::vector<const SourceLine*>& lines) const {
    const auto context = static_cast<int64_t>(style_.context);
    std::string text;
    int64_t shown = 0;  // the last line that is shown
    for (const SourceLine* line : lines) {
      if (line->line <= 0) {
        text += line_with_function(*line);
        continue;
      }
      int64_t first = std::max(line->line - context, shown + 1);
      int64_t last = std::min(line->line + context, static_cast<int64_t>((*source_)->lines.size()));
      while (first < line->line && is_blank(first)) ++first;
      while (last > line->line && is_blank(last)) --last;
      if (shown > 0 && first > shown + 1) text += line_text(nullptr, "...", "");
      for (int64_t number = first; number <= last; ++number) {
        const auto known = by_number_.find(number);
        text += line_text(known == by_number_.end() ? nullptr : known->second,
                          std::to_string(number), source_line(number));
      }
      shown = std::max(shown, last);
    }
    return text;
  }

  const std::string& source_line(int64_t number) const {
    return (*source_)->lines[static_cast<size_t>(number) - 1];
  }
  bool is_blank(int64_t number) const {
    return source_line(number).find_first_not_of(" \t") == std::string::npos;
  }

  // Formats a source line with its byte counts. `line` is null if the source line has none.
  std::string line_text(const SourceLine* line, const std::string& number,
                        const std::string& code) const {
    const SourceLine none;
    const SourceLine& use = line == nullptr ? none : *line;
    std::string text = fmt::format("  {:>10}  {:>10}", cell(use.own.bytes_at_peak),
                                   cell(use.with_calls.bytes_at_peak));
    if (style_.has_history) text += fmt::format("  {:>10}", cell(use.own.allocated_bytes));
    text += fmt::format("  {:{}}  {:>5}  ", main_category(use), category_columns_, number);
    text += fit_to_width(code, text.size());
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  }

  // Expands tabs, makes the text printable, and cuts it off at the right margin.
  std::string fit_to_width(const std::string& code, size_t used_columns) const {
    constexpr size_t kTabColumns = 4;
    constexpr size_t kEllipsisColumns = 3;
    std::string wide;
    for (const char c : code) {
      if (c == '\t') {
        wide.append(kTabColumns - wide.size() % kTabColumns, ' ');
      } else {
        wide += c;
      }
    }
    const size_t reserved = used_columns + kEllipsisColumns;
    return shortened(wide, style_.max_columns - std::min(style_.max_columns, reserved));
  }

  const SourceFile& file_;
  const TextStyle style_;
  size_t category_columns_ = 0;
  std::optional<Result<SourceText>> source_{};
  std::map<int64_t, const SourceLine*> by_number_{};
};

// Formats the lines by file; the file with the most bytes comes first.
std::string files_as_text(const SourceLines& found, const SourceFolders& folders, size_t top,
                          const TextStyle& style) {
  std::map<const SourceFile*, std::vector<const SourceLine*>> by_file;
  for (const ShownLine& each : largest_lines(found, top)) {
    by_file[each.file].push_back(each.line);
  }
  std::string text;
  // Sorts by address: the files point into found.files, and the lines into SourceFile::lines.
  for (auto& [file, lines] : by_file) {
    std::sort(lines.begin(), lines.end());
    text += "\n" + FileText(*file, folders, style).format(lines);
  }
  return text;
}

std::string outside_user_code_as_text(const SourceLines& found, const TextStyle& style) {
  if (found.outside_user_code.empty()) return {};
  std::string text = "\n" + bold("Not in your code") + "\n";
  for (const UseOutsideUserCode& each : found.outside_user_code) {
    text += fmt::format("  {:>10}  {:>10}", cell(each.use.bytes_at_peak), "");
    if (style.has_history) text += fmt::format("  {:>10}", cell(each.use.allocated_bytes));
    text += fmt::format("  {}\n", printable(each.name));
  }
  return text;
}

// Explains why no line of user code is shown.
std::string missing_lines_text(const DeviceRecording& run) {
  const std::vector<Stack>& stacks = run.snapshot().tables.stacks;
  const bool has_stacks = std::any_of(stacks.begin(), stacks.end(),
                                      [](const Stack& each) { return !each.frames.empty(); });
  if (has_stacks) return "No stack has a line of your code: all are of libraries.\n";
  return "No stacks were recorded. To see lines, record with stacks:\n"
         "torch.cuda.memory._record_memory_history(stacks=\"python\")\n";
}

// States how much of the memory lines of user code account for, and how to see more lines.
std::string summary_of(const DeviceRecording& run, const SourceLines& found,
                       const AnnotateArguments& arguments, const TextStyle& style) {
  LineUse own;
  for (const SourceFile& file : found.files) own.add(file.own);
  const size_t line_count = largest_lines(found, SIZE_MAX).size();
  if (line_count == 0) return missing_lines_text(run);
  std::string text = fmt::format("{} requested {}; lines of your code hold {} of it ({}).\n",
                                 format_bytes(found.total.bytes_at_peak), moment_of(style),
                                 format_bytes(own.bytes_at_peak),
                                 format_percent(own.bytes_at_peak, found.total.bytes_at_peak));
  if (line_count > arguments.top) {
    text += fmt::format("{} of {} lines are shown (see --top).\n", group_digits(arguments.top),
                        group_digits(line_count));
  }
  if (arguments.sources.empty()) text += "To see the source, name its folder: --source DIR\n";
  return text;
}

ExitCode run_annotate(const AnnotateArguments& arguments, const Session& session) {
  const Result<SourceFolders> folders = source_folders(arguments.sources);
  if (!folders.ok()) return print_failure(folders.status(), session);
  const Result<DeviceRecording> run = read_run(arguments.file, arguments.device);
  if (!run.ok()) return print_failure(run.status(), session);
  const SourceLines& found = source_lines_of(*run);
  if (arguments.json) {
    session.console.print(format_json(annotate_json(*run, found, *folders)));
    return ExitCode::kSuccess;
  }
  const TextStyle style = {
      .context = arguments.context,
      .max_columns = std::max(kMinColumns, detect_terminal(session.environment).width),
      .has_history = found.total.allocated_bytes > 0};
  session.console.print(title_of(*run) + "\n" + summary_of(*run, found, arguments, style) +
                        files_as_text(found, *folders, arguments.top, style) +
                        outside_user_code_as_text(found, style));
  return ExitCode::kSuccess;
}

}  // namespace
}  // namespace ashlar
