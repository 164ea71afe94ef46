// SPDX-License-Identifier: Apache-2.0
//
// `ashlar replay`: replays a recorded run with its own settings or with other settings.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <memory>
#include <string>

#include "analysis/replay/replay.h"
#include "analysis/report_json/replay_json.h"
#include "analysis/settings.h"
#include "base/units.h"
#include "cli/recording/recorded_run.h"
#include "cli/recording/replay_arguments.h"
#include "cli/subcommand.h"
#include "cli/terminal/json_output.h"
#include "cli/terminal/table.h"

namespace ashlar {
namespace {

struct ReplayArguments {
  std::string file{};
  std::optional<std::string> engine{};
  std::optional<std::string> conf{};
  LimitArguments limits{};
  std::optional<uint64_t> device{};
  bool json = false;
};

CommandFunction prepare_replay(CLI::App& parser);
ExitCode run_replay(const ReplayArguments& arguments, const Session& session);

}  // namespace

const Subcommand kReplay = {
    .name = "replay",
    .summary = "Replay a recorded run, optionally with other settings",
    .prepare = prepare_replay,
};

namespace {

CommandFunction prepare_replay(CLI::App& parser) {
  auto arguments = std::make_shared<ReplayArguments>();
  parser.add_option("FILE", arguments->file, kSnapshotHelp)->type_name("FILE")->required();
  parser
      .add_option("--engine", arguments->engine,
                  "classic, paged or async; default: the recording's")
      ->type_name("ENGINE");
  parser
      .add_option("--conf", arguments->conf,
                  "Settings \"name:value,...\"; default: the recording's")
      ->type_name("SETTINGS");
  add_limit_options(parser, arguments->limits);
  parser.add_option("--device", arguments->device, kDeviceHelp);
  add_json_flag(parser, arguments->json);
  return [arguments](const Session& session) { return run_replay(*arguments, session); };
}

std::string fidelity_as_text(const Fidelity& fidelity) {
  if (fidelity.recorded_count == 0 && !fidelity.first_divergence) {
    return "nothing to compare: the history has no segment operations";
  }
  if (!fidelity.first_divergence && fidelity.recorded_count == fidelity.matched_count) {
    if (fidelity.recorded_count == 1) return "the only segment operation matches the recording";
    return fmt::format("all {} segment operations match the recording",
                       group_digits(fidelity.recorded_count));
  }
  const Divergence& first = *fidelity.first_divergence;
  return fmt::format("{} of {} segment operations match; first difference: {}, recorded: {}",
                     group_digits(fidelity.matched_count), group_digits(fidelity.recorded_count),
                     first.replayed ? describe(*first.replayed) : "nothing",
                     first.recorded ? describe(*first.recorded) : "nothing");
}

std::string start_as_text(const ReplaySummary& replayed) {
  return fmt::format(
      "{} reserved instead of the recorded {}, because the beginning of the history is missing; "
      "the peaks cannot be compared with the recording",
      format_bytes(replayed.result.start_reserved_bytes),
      format_bytes(replayed.recording.timeline().initial.reserved_bytes));
}

std::string replay_as_text(const ReplaySummary& replayed) {
  const ReplayResult& result = replayed.result;
  const AllocatorStats& stats = result.stats;
  const auto bytes = [](const Stat& stat) { return format_bytes(static_cast<size_t>(stat.peak)); };
  const std::string conf = format_conf(replayed.options.allocator);
  const double modelled_us = static_cast<double>(result.driver.total_ns) / 1000;
  const std::string share =
      result.recorded_us
          ? fmt::format(", {:.2f} % of the run", 100 * modelled_us / *result.recorded_us)
          : "";
  Table table({{}, {}});
  table.add({"settings", fmt::format("{} {}", engine_name(replayed.options.allocator),
                                     conf.empty() ? "(defaults)" : conf)});
  table.add({"entries", fmt::format("{}: {}, {}", group_digits(result.event_count),
                                    count_text(result.alloc_count, "allocation", "allocations"),
                                    count_text(result.free_count, "free", "frees"))});
  table.add({"peak requested", bytes(stats.requested_bytes.all)});
  table.add({"peak allocated", bytes(stats.allocated_bytes.all)});
  table.add({"peak reserved", fmt::format("{}, {:.3f} × requested", bytes(stats.reserved_bytes.all),
                                          static_cast<double>(stats.reserved_bytes.all.peak) /
                                              static_cast<double>(std::max<int64_t>(
                                                  stats.requested_bytes.all.peak, 1)))});
  table.add({"out of memory", fmt::format("{} time{}; {} cache flush{}", result.ooms.size(),
                                          result.ooms.size() == 1 ? "" : "s", stats.alloc_retries,
                                          stats.alloc_retries == 1 ? "" : "es")});
  table.add({"driver", fmt::format("{:.1f} ms (modelled){}", modelled_us / 1000, share)});
  if (replayed.recorded_limit) {
    table.add({"memory limit", "as recorded: " + format_limit(*replayed.recorded_limit)});
  }
  if (result.fidelity) table.add({"fidelity", fidelity_as_text(*result.fidelity)});
  if (!result.starts_as_recorded) table.add({"start", start_as_text(replayed)});
  std::string text =
      fmt::format("{}, device {}\n{}{}", replayed.recording.name(), replayed.options.device.value(),
                  other_devices_text(replayed.recording), table.to_text());
  if (!result.ooms.empty()) {
    const ReplayedOom& first = result.ooms.front();
    text += "\n" + paragraph(fmt::format("First failure, {}{}: {}",
                                         first.entry ? "at entry " + group_digits(*first.entry)
                                                     : "before the first entry",
                                         first.was_recorded ? " as recorded" : "", first.message));
  }
  return text;
}

ExitCode run_replay(const ReplayArguments& arguments, const Session& session) {
  const auto started = std::chrono::steady_clock::now();
  const Result<DeviceRecording> recording = read_history(arguments.file, arguments.device, session);
  if (!recording.ok()) return print_failure(recording.status(), session);
  if (!recording->has_history()) {
    return print_no_history(*recording, HistoryQuestion::kReplayRun, arguments.json, session);
  }
  Result<ReplayOptions> options = replay_options({arguments.engine, arguments.conf}, *recording);
  if (!options.ok()) return print_failure(options.status(), session);
  const Result<ReplayLimits> limits = parse_limits(arguments.limits, *recording);
  if (!limits.ok()) return print_failure(limits.status(), session);
  options->capacity_bytes = limits->capacity_bytes;
  options->cap_bytes = limits->cap_bytes;
  const Result<ReplayResult> result =
      replay(recording->snapshot(), recording->allocations(), *options);
  if (!result.ok()) return print_failure(result.status(), session);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
  const ReplaySummary replayed{*recording, *options, *result, limits->recorded, seconds.count()};
  session.console.print(arguments.json ? format_json(replay_json(replayed))
                                       : replay_as_text(replayed));
  return result->ooms.empty() ? ExitCode::kSuccess : ExitCode::kFailure;
}

}  // namespace
}  // namespace ashlar
