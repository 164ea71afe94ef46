// SPDX-License-Identifier: Apache-2.0
//
// `ashlar replay`: a recorded run lived through again, under its own settings or others.
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
#include "cli/json_answer.h"
#include "cli/limits.h"
#include "cli/recorded_run.h"
#include "cli/subcommand.h"
#include "cli/table.h"

namespace ashlar {
namespace {

struct ReplayRequest {
  std::string file{};
  std::optional<std::string> engine{};
  std::optional<std::string> conf{};
  LimitArguments limits{};
  std::optional<uint64_t> device{};
  bool json = false;
};

Run prepare_replay(CLI::App& parser);
ExitCode run_replay(const ReplayRequest& asked, const Session& session);

}  // namespace

const Subcommand kReplay = {
    .name = "replay",
    .summary = "Live through a recorded run again, under other settings if you like",
    .prepare = prepare_replay,
};

namespace {

Run prepare_replay(CLI::App& parser) {
  // Shared by the parser, which fills it in, and the function that runs afterwards.
  auto asked = std::make_shared<ReplayRequest>();
  parser.add_option("FILE", asked->file, kSnapshotHelp)->required();
  parser.add_option(
      "--engine", asked->engine,
      "classic, paged or async; by default that of the recording, which for PyTorch's is "
      "classic");
  parser.add_option("--conf", asked->conf,
                    "Settings, \"name:value,...\"; by default those of the recording");
  add_limit_options(parser, asked->limits);
  parser.add_option("--device", asked->device, kDeviceHelp);
  add_json_flag(parser, asked->json);
  return [asked](const Session& session) { return run_replay(*asked, session); };
}

Result<ReplayOptions> options_for(const ReplayRequest& asked, const DeviceRecording& recording) {
  Result<ReplayOptions> options = replay_options({asked.engine, asked.conf}, recording);
  if (!options.ok()) return options;
  const Result<Limits> limits = limits_of(asked.limits, recording);
  if (!limits.ok()) return limits.status();
  options->capacity_bytes = limits->capacity_bytes;
  options->cap_bytes = limits->cap_bytes;
  return options;
}

std::string fidelity_as_text(const Fidelity& fidelity) {
  if (!fidelity.first_divergence && fidelity.recorded == fidelity.matched) {
    return fmt::format("all {} acts on segments as recorded", group_digits(fidelity.recorded));
  }
  const Divergence& first = *fidelity.first_divergence;
  return fmt::format("{} of {} acts on segments as recorded; first otherwise: {}, recorded: {}",
                     group_digits(fidelity.matched), group_digits(fidelity.recorded),
                     first.replayed ? describe(*first.replayed) : "nothing",
                     first.recorded ? describe(*first.recorded) : "nothing");
}

std::string as_text(const ReplaySummary& replayed) {
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
  table.add(
      {"entries", fmt::format("{}: {} allocations, {} frees", group_digits(result.event_count),
                              group_digits(result.alloc_count), group_digits(result.free_count))});
  table.add({"peak requested", bytes(stats.requested_bytes.all)});
  table.add({"peak allocated", bytes(stats.allocated_bytes.all)});
  table.add(
      {"peak reserved",
       fmt::format("{}, {:.3f} times what was requested", bytes(stats.reserved_bytes.all),
                   static_cast<double>(stats.reserved_bytes.all.peak) /
                       static_cast<double>(std::max<int64_t>(stats.requested_bytes.all.peak, 1)))});
  table.add({"out of memory", fmt::format("{} times; {} flushes of the cache", result.ooms.size(),
                                          stats.alloc_retries)});
  table.add({"driver", fmt::format("{:.1f} ms as modelled{}", modelled_us / 1000, share)});
  if (result.fidelity) table.add({"fidelity", fidelity_as_text(*result.fidelity)});
  std::string text = fmt::format("{}, device {}\n{}", replayed.recording.name(),
                                 replayed.options.device.value(), table.to_text());
  if (!result.ooms.empty()) {
    const ReplayedOom& first = result.ooms.front();
    text += fmt::format(
        "\nFirst failure, {}{}: {}\n",
        first.entry ? "at entry " + group_digits(*first.entry) : "before the first entry",
        first.was_recorded ? " as recorded" : "", first.message);
  }
  return text;
}

ExitCode run_replay(const ReplayRequest& asked, const Session& session) {
  const auto started = std::chrono::steady_clock::now();
  const Result<DeviceRecording> recording = read_history(asked.file, asked.device, session);
  if (!recording.ok()) return complain(recording.status(), session);
  const Result<ReplayOptions> options = options_for(asked, *recording);
  if (!options.ok()) return complain(options.status(), session);
  const Result<ReplayResult> result =
      replay(recording->snapshot(), recording->allocations(), *options);
  if (!result.ok()) return complain(result.status(), session);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
  const ReplaySummary replayed{*recording, *options, *result, seconds.count()};
  session.console.print(asked.json ? json_answer(replay_json(replayed)) : as_text(replayed));
  return result->ooms.empty() ? ExitCode::kDone : ExitCode::kNo;
}

}  // namespace
}  // namespace ashlar
