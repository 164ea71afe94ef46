// SPDX-License-Identifier: Apache-2.0
//
// Arguments shared by the commands that replay a recording: memory limits (--capacity and --cap),
// and for `ashlar tune` and `ashlar oom` the number of parallel replays.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analysis/replay/tune.h"
#include "ashlar/status.h"
#include "cli/recording/recorded_run.h"
#include "cli/subcommand.h"

namespace ashlar {

// The memory limits as typed on the command line.
struct LimitArguments {
  std::optional<std::string> capacity{};
  std::optional<std::string> cap{};

  bool any() const { return capacity || cap; }
};

struct TuneArguments {
  std::string file{};
  LimitArguments limits{};
  std::optional<uint64_t> device{};
  size_t job_count = 0;  // 0: one per hardware thread
};

// Declares --capacity and --cap. `arguments` must outlive the parser.
void add_limit_options(CLI::App& parser, LimitArguments& arguments);

// Parses the limits. If none is given, the limits of the recorded run apply; see find_limits().
// kInvalidArgument: an argument is not a size. Other errors are those of find_limits().
Result<ReplayLimits> parse_limits(const LimitArguments& arguments,
                                  const DeviceRecording& recording);

// Declares the arguments of commands that replay a recording under many settings. `arguments` must
// outlive the parser.
void add_tune_arguments(CLI::App& parser, TuneArguments& arguments);

// Converts the arguments. The returned options report progress to the session's console, which must
// outlive them.
// Errors are those of parse_limits().
Result<TuneOptions> parse_tune_options(const TuneArguments& arguments,
                                       const DeviceRecording& recording, const Session& session);

}  // namespace ashlar
