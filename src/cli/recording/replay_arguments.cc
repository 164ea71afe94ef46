// SPDX-License-Identifier: Apache-2.0
//
// Declares the options for CLI11, and converts the strings that CLI11 has parsed to sizes and
// limits.
#include "cli/recording/replay_arguments.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/units.h"

namespace ashlar {
namespace {

Result<std::optional<size_t>> parse_size(const std::optional<std::string>& text,
                                         std::string_view option) {
  if (!text) return std::optional<size_t>();
  const Result<size_t> bytes = parse_bytes(*text);
  if (bytes.ok() && *bytes > 0) return std::optional<size_t>(*bytes);
  return Status::invalid_argument(fmt::format(
      "{}: {} is not a size (expected a number and a unit, such as 80GiB)", option, *text));
}

}  // namespace

void add_limit_options(CLI::App& parser, LimitArguments& arguments) {
  parser.add_option("--capacity", arguments.capacity, "Memory of the device, such as 80GiB")
      ->type_name("SIZE");
  parser.add_option("--cap", arguments.cap, "Memory limit of the process, such as 14GiB")
      ->type_name("SIZE");
}

Result<ReplayLimits> parse_limits(const LimitArguments& arguments,
                                  const DeviceRecording& recording) {
  const Result<std::optional<size_t>> capacity = parse_size(arguments.capacity, "--capacity");
  if (!capacity.ok()) return capacity.status();
  const Result<std::optional<size_t>> cap = parse_size(arguments.cap, "--cap");
  if (!cap.ok()) return cap.status();
  return find_limits(recording, *capacity, *cap);
}

void add_tune_arguments(CLI::App& parser, TuneArguments& arguments) {
  parser.add_option("FILE", arguments.file, kSnapshotHelp)->type_name("FILE")->required();
  add_limit_options(parser, arguments.limits);
  parser.add_option("--device", arguments.device, kDeviceHelp);
  parser.add_option("--jobs", arguments.job_count, "Parallel replays; default: one per core")
      ->check(CLI::Range(1, 1024));
}

Result<TuneOptions> parse_tune_options(const TuneArguments& arguments,
                                       const DeviceRecording& recording, const Session& session) {
  const Result<ReplayLimits> limits = parse_limits(arguments.limits, recording);
  if (!limits.ok()) return limits.status();
  TuneOptions options = tune_options(recording, *limits);
  options.worker_count = arguments.job_count;
  Console& console = session.console;
  options.progress = [&console](double share) { console.set_progress(share); };
  return options;
}

}  // namespace ashlar
