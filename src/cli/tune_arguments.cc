// SPDX-License-Identifier: Apache-2.0
//
// Declaring and reading them.
#include "cli/tune_arguments.h"

#include <CLI/CLI.hpp>

namespace ashlar {

void add_tune_arguments(CLI::App& parser, TuneArguments& asked) {
  parser.add_option("FILE", asked.file, kSnapshotHelp)->required();
  add_limit_options(parser, asked.limits);
  parser.add_option("--device", asked.device, kDeviceHelp);
  parser.add_option("--jobs", asked.jobs, "Replays at once; by default, one for each core")
      ->check(CLI::Range(1, 1024));
}

Result<TuneOptions> tune_options_of(const TuneArguments& asked, const DeviceRecording& recording,
                                    const Session& session) {
  const Result<Limits> limits = limits_of(asked.limits, recording);
  if (!limits.ok()) return limits.status();
  TuneOptions options;
  options.recorded = recording.options();
  options.device = recording.device();
  options.capacity_bytes = limits->capacity_bytes;
  options.cap_bytes = limits->cap_bytes;
  options.worker_count = asked.jobs;
  Console& console = session.console;
  options.progress = [&console](double share) { console.set_progress(share); };
  return options;
}

}  // namespace ashlar
