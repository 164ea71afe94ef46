// `ashlar oom`: why an allocation found no memory, and which settings would have had room.
#include "analysis/oom.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <string>

#include "base/units.h"
#include "cli/limits.h"
#include "cli/recorded_run.h"
#include "cli/settings_text.h"
#include "cli/stack_text.h"
#include "cli/subcommand.h"
#include "cli/table.h"

namespace ashlar {
namespace {

using Json = nlohmann::ordered_json;

struct OomRequest {
  std::string file{};
  LimitArguments limits{};
  std::optional<uint64_t> device{};
  size_t jobs = 0;
  bool json = false;
};

Run prepare_oom(CLI::App& parser);
ExitCode run_oom(const OomRequest& asked, const Session& session);

}  // namespace

const Subcommand kExplainOom = {
    .name = "oom",
    .summary = "Explain why a recorded run ran out of memory, or would under a limit",
    .prepare = prepare_oom,
};

namespace {

Run prepare_oom(CLI::App& parser) {
  // Shared by the parser, which fills it in, and the function that runs afterwards.
  auto asked = std::make_shared<OomRequest>();
  parser.add_option("FILE", asked->file, kSnapshotHelp)->required();
  add_limit_options(parser, asked->limits);
  parser.add_option("--device", asked->device, kDeviceHelp);
  parser.add_option("--jobs", asked->jobs, "Replays at once; by default, one for each core")
      ->check(CLI::Range(1, 1024));
  parser.add_flag("--json", asked->json, "One JSON object, for programs");
  return [asked](const Session& session) { return run_oom(*asked, session); };
}

// --- for programs
// -------------------------------------------------------------------------------

Json stack_as_json(const SnapshotTables& tables, StackId stack) {
  Json frames = Json::array();
  if (stack.value() >= tables.stacks.size()) return frames;
  for (const uint32_t id : tables.stacks[stack.value()].frames) {
    if (id >= tables.frames.size()) continue;
    const Frame& frame = tables.frames[id];
    frames.push_back({{"name", frame.name}, {"filename", frame.filename}, {"line", frame.line}});
  }
  return frames;
}

Json pinned_as_json(const SnapshotTables& tables, const PinnedSegment& segment) {
  Json blocks = Json::array();
  for (const PinningBlock& block : segment.largest) {
    blocks.push_back({{"address", block.address.value()},
                      {"bytes", block.bytes},
                      {"requested_bytes", block.requested_bytes},
                      {"made_at_entry", block.made ? Json(*block.made) : Json()},
                      {"age_us", block.age_us ? Json(*block.age_us) : Json()},
                      {"frames", stack_as_json(tables, block.stack)}});
  }
  return {{"address", segment.address.value()}, {"total_bytes", segment.total_bytes},
          {"free_bytes", segment.free_bytes},   {"largest_hole_bytes", segment.largest_hole_bytes},
          {"stream", segment.stream.value()},   {"is_usable", segment.is_usable},
          {"live_blocks", segment.live_count},  {"largest_blocks", blocks}};
}

Json state_as_json(const SnapshotTables& tables, const std::optional<OomState>& state) {
  if (!state) return {};
  Json pinned = Json::array();
  for (const PinnedSegment& segment : state->pinned) {
    pinned.push_back(pinned_as_json(tables, segment));
  }
  return {{"reserved_bytes", state->reserved_bytes},
          {"allocated_bytes", state->allocated_bytes},
          {"free_bytes", state->free_bytes},
          {"usable_free_bytes", state->usable_free_bytes},
          {"largest_hole_bytes", state->largest_hole_bytes},
          {"largest_usable_hole_bytes", state->largest_usable_hole_bytes},
          {"pinned_segments", pinned}};
}

std::string as_json(const RecordedRun& recording, const std::optional<OomReport>& report) {
  Json answer = {{"file", recording.file},
                 {"device", recording.device.value()},
                 {"out_of_memory", report.has_value()}};
  if (report) {
    const SnapshotTables& tables = recording.snapshot.tables;
    const auto& requested = report->requested_bytes;
    Json fitting = Json::array();
    for (const Trial& trial : report->settings.trials) {
      if (trial.completes()) fitting.push_back(trial_as_json(trial));
    }
    answer["entry"] = report->entry ? Json(*report->entry) : Json();
    answer["was_recorded"] = report->was_recorded;
    answer["requested_bytes"] = requested ? Json(*requested) : Json();
    answer["rounded_bytes"] = report->rounded_bytes;
    answer["segment_bytes"] = report->segment_bytes;
    answer["stream"] = report->stream.value();
    answer["frames"] = stack_as_json(tables, report->stack);
    answer["device_free_bytes"] = report->device_free_bytes;
    answer["limit"] = {{"is_inferred", report->limit.is_inferred()},
                       {"at_least_bytes", report->limit.at_least_bytes},
                       {"below_bytes", report->limit.below_bytes},
                       {"replayed_bytes", report->limit.replayed_bytes},
                       {"is_of_device", report->limit.is_of_device}};
    answer["state"] = state_as_json(tables, report->state);
    answer["settings_tried"] = report->settings.trials.size();
    answer["fitting"] = fitting;
  }
  return answer.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// --- for people
// ---------------------------------------------------------------------------------

// The innermost frames.
std::string stack_as_text(const SnapshotTables& tables, StackId stack) {
  constexpr size_t kMostFrames = 3;
  std::string text;
  if (stack.value() >= tables.stacks.size()) return text;
  const std::vector<uint32_t>& frames = tables.stacks[stack.value()].frames;
  for (size_t i = 0; i < std::min(frames.size(), kMostFrames); ++i) {
    if (frames[i] >= tables.frames.size()) continue;
    const Frame& frame = tables.frames[frames[i]];
    if (!text.empty()) text += " < ";
    text += fmt::format("{} ({}:{})", frame.name,
                        frame.filename.substr(frame.filename.find_last_of('/') + 1), frame.line);
  }
  return printable(text);
}

std::string age_as_text(const PinningBlock& block) {
  if (!block.made) return "there from the start";
  if (!block.age_us) return fmt::format("made at entry {}", group_digits(*block.made));
  const auto age_us = static_cast<double>(*block.age_us);
  if (age_us < 1e6) return fmt::format("{:.1f} ms old", age_us / 1e3);
  return fmt::format("{:.1f} s old", age_us / 1e6);
}

std::string limit_as_text(const OomLimit& limit) {
  if (!limit.is_inferred()) return format_bytes(limit.at_least_bytes);
  return fmt::format("between {} and {}; inferred: that much was held, this much was refused",
                     format_bytes(limit.at_least_bytes), format_bytes(limit.below_bytes));
}

std::string facts_as_text(const RecordedRun& recording, const OomReport& report) {
  Table table({{}, {}});
  const std::string rounded =
      fmt::format("{} rounded up, in a segment of {}", format_bytes(report.rounded_bytes),
                  format_bytes(report.segment_bytes));
  table.add(
      {"asked for", report.requested_bytes
                        ? fmt::format("{}: {}", format_bytes(*report.requested_bytes), rounded)
                        : rounded});
  const std::string by = stack_as_text(recording.snapshot.tables, report.stack);
  if (!by.empty()) table.add({"by", by});
  table.add({"limit", limit_as_text(report.limit)});
  table.add({"device", fmt::format("{} free", format_bytes(report.device_free_bytes))});
  if (const auto& state = report.state) {
    table.add(
        {"reserved", fmt::format("{}, of which {} allocated", format_bytes(state->reserved_bytes),
                                 format_bytes(state->allocated_bytes))});
    table.add({"free in cache", fmt::format("{}, of which {} in the stream and pool of the request",
                                            format_bytes(state->free_bytes),
                                            format_bytes(state->usable_free_bytes))});
    table.add({"largest hole",
               fmt::format("{}; of use to the request: {}", format_bytes(state->largest_hole_bytes),
                           format_bytes(state->largest_usable_hole_bytes))});
  }
  return table.to_text();
}

std::string pinned_as_text(const RecordedRun& recording, const OomState& state) {
  Table table({{"segment", Align::kRight},
               {"free", Align::kRight},
               {"hole", Align::kRight},
               {"kept by", Align::kRight},
               {""}});
  for (const PinnedSegment& segment : state.pinned) {
    bool is_first = true;
    for (const PinningBlock& block : segment.largest) {
      const std::string who = stack_as_text(recording.snapshot.tables, block.stack);
      const std::string what = who.empty() ? age_as_text(block) : age_as_text(block) + ", " + who;
      table.add({is_first ? format_bytes(segment.total_bytes) : "",
                 is_first ? format_bytes(segment.free_bytes) : "",
                 is_first ? format_bytes(segment.largest_hole_bytes) : "",
                 format_bytes(block.bytes), what});
      is_first = false;
    }
    if (segment.live_count > segment.largest.size()) {
      table.add({"", "", "", fmt::format("+ {}", segment.live_count - segment.largest.size()),
                 "smaller blocks"});
    }
  }
  return table.to_text();
}

std::string fitting_as_text(const OomReport& report) {
  std::vector<Trial> fitting;
  for (const Trial& trial : report.settings.trials) {
    if (trial.completes()) fitting.push_back(trial);
  }
  const std::string under = format_bytes(report.limit.replayed_bytes);
  if (fitting.empty()) {
    return fmt::format("None of the {} settings that were replayed under {} completes.\n",
                       report.settings.trials.size(), under);
  }
  std::string text = fmt::format("{} of {} settings complete when replayed under {}:\n",
                                 fitting.size(), report.settings.trials.size(), under);
  text += trials_as_text(fitting, {.lower_bound_bytes = report.settings.lower_bound_bytes});
  const Trial& best = report.settings.trials[*report.settings.best];
  return text + fmt::format("\nBest: {}\n", line_to_paste(best.setting));
}

std::string as_text(const RecordedRun& recording, const std::optional<OomReport>& report) {
  std::string text = fmt::format("{}, device {}: ", recording.file, recording.device.value());
  if (!report) return text + "no out of memory here\n";
  text += fmt::format("out of memory {}{}\n",
                      report->entry ? "at entry " + group_digits(*report->entry)
                                    : "with what was there before the first entry",
                      report->was_recorded ? ", as recorded" : ", in the replay");
  text += facts_as_text(recording, *report);
  if (!report->state) {
    text +=
        "\nThe failure did not happen again in the replay, so what was held then is not known.\n";
  } else if (!report->state->pinned.empty()) {
    text += "\nWho keeps the free memory from being given back, where most of it is:\n";
    text += pinned_as_text(recording, *report->state);
  }
  return text + "\n" + fitting_as_text(*report);
}

ExitCode run_oom(const OomRequest& asked, const Session& session) {
  const Result<RecordedRun> recording = read_history(asked.file, asked.device);
  if (!recording.ok()) return complain(recording.status(), session);
  if (!recording->ignored.empty()) {
    session.console.complain("settings of the recording are left out: " + recording->ignored);
  }
  const Result<Limits> limits = limits_of(asked.limits, *recording);
  if (!limits.ok()) return complain(limits.status(), session);
  OomQuestion question;
  question.is_limit_given = limits->is_given;
  question.replaying.recorded = recording->options;
  question.replaying.device = recording->device;
  question.replaying.capacity_bytes = limits->capacity_bytes;
  question.replaying.cap_bytes = limits->cap_bytes;
  question.replaying.worker_count = asked.jobs;
  question.replaying.progress = [&](double share) { session.console.show_progress(share); };
  const Result<std::optional<OomReport>> report =
      explain_oom(recording->snapshot, recording->allocations, question);
  session.console.clear_progress();
  if (!report.ok()) return complain(report.status(), session);
  session.console.print(asked.json ? as_json(*recording, *report) : as_text(*recording, *report));
  return ExitCode::kDone;
}

}  // namespace
}  // namespace ashlar
