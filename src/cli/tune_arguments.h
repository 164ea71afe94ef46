// SPDX-License-Identifier: Apache-2.0
//
// What one may say to every command that replays a run under many settings: `ashlar tune` and
// `ashlar oom`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analysis/replay/tune.h"
#include "cli/limits.h"
#include "cli/recorded_run.h"
#include "cli/subcommand.h"

namespace ashlar {

struct TuneArguments {
  std::string file{};
  LimitArguments limits{};
  std::optional<uint64_t> device{};
  size_t jobs = 0;  // 0: one for each core
};

// `asked` outlives the parser.
void add_tune_arguments(CLI::App& parser, TuneArguments& asked);

// With progress on the console, which outlives them.
// kInvalidArgument: a limit is not a size.
Result<TuneOptions> tune_options_of(const TuneArguments& asked, const DeviceRecording& recording,
                                    const Session& session);

}  // namespace ashlar
