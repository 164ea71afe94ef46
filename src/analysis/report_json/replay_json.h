// SPDX-License-Identifier: Apache-2.0
//
// What `ashlar replay` is asked, and what it answers to programs.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "analysis/recording.h"
#include "analysis/replay/replay.h"

namespace ashlar {

// Settings to live through the run again under; those of the recording where nothing is said.
struct ReplaySettings {
  std::optional<std::string> engine{};
  std::optional<std::string> conf{};
};

// All but the limits; the capacity is the one to assume.
// kFormat or kInvalidArgument: as parse_allocator_options().
Result<ReplayOptions> replay_options(const ReplaySettings& asked, const DeviceRecording& recording);

struct Replayed {
  const DeviceRecording& recording;
  const ReplayOptions& options;
  const ReplayResult& result;
  double seconds = 0;
};

nlohmann::ordered_json replay_json(const Replayed& replayed);

}  // namespace ashlar
