// SPDX-License-Identifier: Apache-2.0
//
// How much memory a replay may have: --capacity and --cap, for every command that replays.
#pragma once

#include <optional>
#include <string>

#include "ashlar/status.h"
#include "cli/recorded_run.h"

namespace ashlar {

struct LimitArguments {
  std::optional<std::string> capacity{};
  std::optional<std::string> cap{};

  bool any() const { return capacity || cap; }
};

struct Limits {
  size_t capacity_bytes = 0;          // of the device
  std::optional<size_t> cap_bytes{};  // of the process
};

// `asked` outlives the parser.
void add_limit_options(CLI::App& parser, LimitArguments& asked);

// kInvalidArgument: one is not a size.
Result<Limits> limits_of(const LimitArguments& asked, const DeviceRecording& recording);

}  // namespace ashlar
