// SPDX-License-Identifier: Apache-2.0
//
// `ashlar whatif`: predicts the memory of a recorded run after changes of its code.
#include "analysis/whatif/what_if.h"

#include <fmt/format.h>
#include <re2/re2.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analysis/report_json/fit_json.h"
#include "analysis/report_json/replay_json.h"
#include "analysis/report_json/report_json.h"
#include "analysis/report_json/what_if_json.h"
#include "base/units.h"
#include "cli/recording/fit_report.h"
#include "cli/recording/recorded_run.h"
#include "cli/recording/replay_arguments.h"
#include "cli/subcommand.h"
#include "cli/terminal/json_output.h"
#include "cli/terminal/stack_text.h"
#include "cli/terminal/style.h"
#include "cli/terminal/table.h"

namespace ashlar {
namespace {

struct TypedEdit {
  std::string option{};
  std::string value{};
};

struct WhatIfArguments {
  std::string file{};
  std::vector<std::string> sources{};
  std::optional<std::string> engine{};
  std::optional<std::string> conf{};
  LimitArguments limits{};
  std::optional<std::string> fit{};
  std::optional<uint64_t> device{};
  size_t top = 5;
  bool json = false;
};

CommandFunction prepare_what_if(CLI::App& parser);
std::vector<TypedEdit> typed_edits(const CLI::App& parser);
ExitCode run_what_if(const WhatIfArguments& arguments, const std::vector<TypedEdit>& typed,
                     const Session& session);

}  // namespace

const Subcommand kWhatIf = {
    .name = "whatif",
    .summary = "Predict the memory of a recorded run after changes of its code",
    .prepare = prepare_what_if,
};

namespace {

constexpr EditKind kEditKinds[] = {EditKind::kRecompute,     EditKind::kOffload,  EditKind::kFree,
                                   EditKind::kDrop,          EditKind::kScale,    EditKind::kBatch,
                                   EditKind::kKeepGradients, EditKind::kSetToNone};

struct EditHelp {
  const char* value;  // null: a flag
  const char* description;
};

EditHelp help_of(EditKind kind) {
  switch (kind) {
    case EditKind::kRecompute: return {"F", "Recompute function F in the backward pass"};
    case EditKind::kOffload: return {"F", "Keep what F saves for the backward pass on the host"};
    case EditKind::kFree: return {"S", "Free the allocations S earlier; needs --at"};
    case EditKind::kDrop: return {"S", "Do not allocate S"};
    case EditKind::kScale: return {"S=X", "Multiply the sizes of the allocations S by X"};
    case EditKind::kBatch: return {"X", "Multiply the batch size by X"};
    case EditKind::kKeepGradients: return {nullptr, "Keep gradients: zero_grad(set_to_none=False)"};
    case EditKind::kSetToNone: return {nullptr, "Free gradients: zero_grad(set_to_none=True)"};
  }
  return {};
}

void add_edit_options(CLI::App& parser) {
  for (const EditKind kind : kEditKinds) {
    const EditHelp help = help_of(kind);
    const std::string option(option_of(kind));
    if (help.value == nullptr) {
      parser.add_flag(option, help.description);
      continue;
    }
    parser.add_option(option, help.description)
        ->type_name(help.value)
        ->type_size(1)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    if (kind == EditKind::kFree) {
      parser.add_option("--at", "When --free frees: end:F, leave:FILE:LINE, next:FILE:LINE, step")
          ->type_name("WHEN")
          ->type_size(1)
          ->expected(1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }
  }
}

CommandFunction prepare_what_if(CLI::App& parser) {
  auto arguments = std::make_shared<WhatIfArguments>();
  parser.add_option("FILE", arguments->file, kSnapshotHelp)->type_name("FILE")->required();
  add_edit_options(parser);
  parser
      .add_option("--engine", arguments->engine,
                  "classic, paged or async after the edits; default: the recording's")
      ->type_name("ENGINE");
  parser
      .add_option("--conf", arguments->conf,
                  "Settings \"name:value,...\" after the edits; default: the recording's")
      ->type_name("SETTINGS");
  parser
      .add_option("--fit", arguments->fit,
                  "Find the cheapest settings and edits that fit a device of SIZE, such as 80GiB")
      ->type_name("SIZE");
  add_source_option(parser, arguments->sources);
  add_limit_options(parser, arguments->limits);
  parser.add_option("--device", arguments->device, kDeviceHelp);
  parser.add_option("--top", arguments->top, "Number of source lines to list")
      ->capture_default_str();
  add_json_flag(parser, arguments->json);
  parser.footer(
      "Edits apply in the order of the options, which may be repeated.\n"
      "F is a function: model.py:55-59 (its lines), model.py:train_step (its name), or\n"
      "with --source model.py:Block.forward. S is F, or model.py:87 (all allocations\n"
      "under that line), class:optimizer_state (a category of \"ashlar report\") or\n"
      "frame:REGEX; terms joined by commas must all match. Files match by the end of\n"
      "their path.");
  return [arguments, &parser](const Session& session) {
    return run_what_if(*arguments, typed_edits(parser), session);
  };
}

// Returns the options of edits, and --at, in the order in which they were typed. The order matters,
// and CLI11 stores the values of each option apart.
std::vector<TypedEdit> typed_edits(const CLI::App& parser) {
  std::vector<TypedEdit> typed;
  std::map<const CLI::Option*, size_t> counts;
  for (const CLI::Option* option : parser.parse_order()) {
    const std::string name = option->get_name();
    const bool is_edit =
        name == "--at" || std::any_of(std::begin(kEditKinds), std::end(kEditKinds),
                                      [&](EditKind kind) { return name == option_of(kind); });
    if (!is_edit) continue;
    const size_t index = counts[option]++;
    const std::vector<std::string>& values = option->results();
    typed.push_back({name, index < values.size() ? values[index] : ""});
  }
  return typed;
}

Result<std::vector<Edit>> parse_edits(const std::vector<TypedEdit>& typed) {
  std::vector<Edit> edits;
  for (const TypedEdit& each : typed) {
    if (each.option == "--at") {
      const bool follows_free =
          !edits.empty() && edits.back().kind == EditKind::kFree && !edits.back().at;
      if (!follows_free) {
        return Status::invalid_argument("--at: must follow --free S, one for each");
      }
      if (Status parsed = parse_at(each.value, edits.back()); !parsed.ok()) return parsed;
      continue;
    }
    const EditKind* kind =
        std::find_if(std::begin(kEditKinds), std::end(kEditKinds),
                     [&](EditKind candidate) { return option_of(candidate) == each.option; });
    Result<Edit> edit = parse_edit(*kind, each.value);
    if (!edit.ok()) return edit.status();
    edits.push_back(*std::move(edit));
  }
  for (const Edit& each : edits) {
    if (each.kind == EditKind::kFree && !each.at) {
      return Status::invalid_argument(fmt::format(
          "{}: missing --at WHEN (end:F, leave:FILE:LINE, next:FILE:LINE or step)", each.text));
    }
  }
  return edits;
}

Result<FrameExpression> compile_expression(const std::string& expression) {
  RE2::Options options;
  options.set_log_errors(false);
  const auto compiled = std::make_shared<const RE2>(expression, options);
  if (!compiled->ok()) {
    return Status::invalid_argument(fmt::format(
        "frame:{}: {} (expected a regular expression of RE2)", expression, compiled->error()));
  }
  return FrameExpression([compiled](std::string_view frame) {
    return RE2::PartialMatch(re2::StringPiece(frame.data(), frame.size()), *compiled);
  });
}

Result<WhatIfOptions> what_if_options(const WhatIfArguments& arguments,
                                      const DeviceRecording& recording) {
  Result<ReplayOptions> recorded = replay_options({}, recording);
  if (!recorded.ok()) return recorded.status();
  Result<ReplayOptions> edited = replay_options({arguments.engine, arguments.conf}, recording);
  if (!edited.ok()) return edited.status();
  const Result<ReplayLimits> recorded_limits = parse_limits({}, recording);
  if (!recorded_limits.ok()) return recorded_limits.status();
  const Result<ReplayLimits> limits = parse_limits(arguments.limits, recording);
  if (!limits.ok()) return limits.status();
  WhatIfOptions options;
  options.recorded = *std::move(recorded);
  options.recorded.capacity_bytes = recorded_limits->capacity_bytes;
  options.recorded.cap_bytes = recorded_limits->cap_bytes;
  options.edited = *std::move(edited);
  options.edited.capacity_bytes = limits->capacity_bytes;
  options.edited.cap_bytes = limits->cap_bytes;
  options.names.compile = compile_expression;
  return options;
}

std::string relative_change_text(size_t before, size_t after) {
  if (before == 0) return "";
  const double share = 100 * (static_cast<double>(after) / static_cast<double>(before) - 1);
  return fmt::format("{:+.1f} %", share);
}

// Returns the recomputed or copied bytes per iteration; empty if there are none.
std::string price_text(const EditEffect& effect) {
  if (effect.recomputed_bytes > 0) {
    return fmt::format("; recomputes {} per iteration",
                       format_bytes(effect.recomputed_bytes_per_iteration));
  }
  if (effect.offloaded_bytes > 0) {
    return fmt::format("; moves {} to the host and back per iteration",
                       format_bytes(effect.offloaded_bytes_per_iteration));
  }
  return "";
}

std::string edits_as_text(const WhatIfResult& result) {
  if (result.edits.empty()) return "";
  Table table({{}, {}});
  for (const EditOutcome& each : result.edits) {
    const EditEffect& effect = each.effect;
    std::string changed = count_text(effect.allocation_count, "allocation", "allocations");
    if (effect.found_invocations > 0) {
      changed += fmt::format(" in {} of {}", group_digits(effect.invocation_count),
                             count_text(effect.found_invocations, "invocation", "invocations"));
    }
    table.add({printable(each.edit.text), changed + price_text(effect)});
    if (!each.note.empty()) table.add({"", each.note});
  }
  return "\n" + bold("Edits") + "\n" + table.to_text();
}

std::string peak_table_text(const DeviceRecording& run, const WhatIfResult& result) {
  const WhatIfPeaks& before = result.before;
  const WhatIfPeaks& after = result.after;
  Table table({{"peak"},
               {"before", Align::kRight},
               {"after", Align::kRight},
               {"change", Align::kRight},
               {"reached before"},
               {"reached after"}});
  const auto add = [&](const char* name, const WhatIfPeak& was, const WhatIfPeak& is) {
    table.add({name, format_bytes(was.bytes), format_bytes(is.bytes),
               relative_change_text(was.bytes, is.bytes), moment_text(run, was.entry),
               moment_text(run, is.entry)});
  };
  add("requested", before.requested, after.requested);
  add("allocated", before.allocated, after.allocated);
  add("reserved", before.reserved, after.reserved);
  table.add({"fragmentation", format_bytes(before.fragmentation_bytes()),
             format_bytes(after.fragmentation_bytes()),
             relative_change_text(before.fragmentation_bytes(), after.fragmentation_bytes()), "",
             ""});
  std::string text = "\n" + table.to_text();
  if (after.oom_count > 0) {
    text +=
        paragraph(fmt::format("The edited run does not fit: {}.",
                              count_text(after.oom_count, "allocation fails", "allocations fail")));
  }
  return text;
}

std::string phases_as_text(const WhatIfResult& result) {
  Table table({{"phase"}, {"before", Align::kRight}, {"after", Align::kRight}});
  for (size_t i = 0; i < kPhaseCount; ++i) {
    const size_t before = result.before.requested_by_phase[i];
    const size_t after = result.after.requested_by_phase[i];
    if (before == 0 && after == 0) continue;
    table.add({name(static_cast<Phase>(i)), format_bytes(before), format_bytes(after)});
  }
  return "\n" + bold("Highest requested bytes by phase") + "\n" + table.to_text();
}

std::string next_limit_as_text(const DeviceRecording& run, const WhatIfResult& result, size_t top) {
  const std::vector<StackTotal>& stacks = result.after_stacks;
  Table table({{{}, Align::kRight}, {{}, Align::kRight}, {}});
  for (size_t i = 0; i < std::min(stacks.size(), top); ++i) {
    const std::vector<std::string> lines =
        stack_lines_of(run.recording().stacks(), stacks[i].stack, StackDetail::kUserCode);
    table.add({format_bytes(stacks[i].bytes), fmt::format("{} x", group_digits(stacks[i].count)),
               lines.front()});
    for (size_t line = 1; line < lines.size(); ++line) table.add({"", "", lines[line]});
  }
  return "\n" +
         bold(fmt::format("What limits next: {}", moment_text(run, result.after.requested.entry))) +
         "\n" + table.to_text();
}

std::string what_if_as_text(const DeviceRecording& run, const WhatIfResult& result, size_t top) {
  std::string text = title_of(run) + edits_as_text(result) + peak_table_text(run, result) +
                     phases_as_text(result) + next_limit_as_text(run, result, top);
  if (!result.warnings.empty()) text += "\n";
  for (const std::string& each : result.warnings) text += paragraph("Note: " + each + ".");
  return text;
}

// Searches for edits, with the recording and its options.
ExitCode run_fit(const WhatIfArguments& arguments, size_t limit_bytes,
                 const DeviceRecording& recording, const WhatIfOptions& options,
                 const Session& session) {
  FitOptions fitting;
  fitting.limit_bytes = limit_bytes;
  fitting.recorded = options.recorded;
  fitting.available = recording.recording().pytorch().available;
  fitting.names = options.names;
  fitting.progress = options.progress;
  const Result<FitResult> result = find_fit(recording, fitting);
  session.console.clear_progress();
  if (!result.ok()) return print_failure(result.status(), session);
  const FitArguments typed = {*arguments.fit, arguments.sources, arguments.device};
  session.console.print(arguments.json ? format_json(fit_json(recording, *result, typed))
                                       : fit_as_text(recording, *result, typed));
  const bool fits = result->fits_as_recorded || !result->proposals.empty();
  return fits ? ExitCode::kSuccess : ExitCode::kFailure;
}

// Returns the size of --fit. kInvalidArgument: it is not a size, or there are other options that
// change the run, of which the search would take no notice.
Result<size_t> parse_fit(const WhatIfArguments& arguments, const std::vector<TypedEdit>& typed) {
  const Result<size_t> bytes = parse_bytes(*arguments.fit);
  if (!bytes.ok() || *bytes == 0) {
    return Status::invalid_argument(
        fmt::format("--fit: {} is not a size (expected a number and a unit, such as 80GiB)",
                    printable(*arguments.fit)));
  }
  if (typed.empty() && !arguments.engine && !arguments.conf && !arguments.limits.any()) {
    return *bytes;
  }
  return Status::invalid_argument(
      "--fit: searches for edits, settings and engines itself; leave out other edits, --conf, "
      "--engine, --capacity and --cap");
}

ExitCode run_what_if(const WhatIfArguments& arguments, const std::vector<TypedEdit>& typed,
                     const Session& session) {
  const Result<size_t> fit_bytes = arguments.fit ? parse_fit(arguments, typed) : size_t{0};
  if (!fit_bytes.ok()) return print_failure(fit_bytes.status(), session);
  const Result<std::vector<Edit>> edits = parse_edits(typed);
  if (!edits.ok()) return print_failure(edits.status(), session);
  if (edits->empty() && !arguments.conf && !arguments.engine && !arguments.fit) {
    return print_failure(
        Status::invalid_argument("no edit (expected --recompute, --offload, --free, --drop, "
                                 "--scale, --batch, --keep-grads, --set-to-none, --conf, "
                                 "--engine or --fit)"),
        session);
  }
  const Result<SourceFolders> folders = source_folders(arguments.sources);
  if (!folders.ok()) return print_failure(folders.status(), session);
  const Result<DeviceRecording> recording = read_history(arguments.file, arguments.device, session);
  if (!recording.ok()) return print_failure(recording.status(), session);
  if (!recording->has_history()) {
    return print_no_history(*recording, HistoryQuestion::kReplayRun, arguments.json, session);
  }
  Result<WhatIfOptions> options = what_if_options(arguments, *recording);
  if (!options.ok()) return print_failure(options.status(), session);
  options->names.folders = &*folders;
  options->progress = [&session](double share) { session.console.set_progress(share); };
  if (arguments.fit) return run_fit(arguments, *fit_bytes, *recording, *options, session);
  const Result<WhatIfResult> result = what_if(*recording, *edits, *options);
  session.console.clear_progress();
  if (!result.ok()) return print_failure(result.status(), session);
  session.console.print(arguments.json ? format_json(what_if_json(*recording, *result))
                                       : what_if_as_text(*recording, *result, arguments.top));
  return ExitCode::kSuccess;
}

}  // namespace
}  // namespace ashlar
