// SPDX-License-Identifier: Apache-2.0
//
// The settings and the JSON of `ashlar replay`.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "analysis/recording.h"
#include "analysis/replay/memory_limit.h"
#include "analysis/replay/replay.h"

namespace ashlar {

// Settings for a replay. An unset field means the recorded setting.
struct ReplaySettings {
  std::optional<std::string> engine{};
  std::optional<std::string> conf{};
};

// Returns the replay options for these settings, with the assumed capacity and without a cap; the
// caller sets the limits from find_limits().
// kFormat or kInvalidArgument: see parse_allocator_options().
Result<ReplayOptions> replay_options(const ReplaySettings& settings,
                                     const DeviceRecording& recording);

struct ReplaySummary {
  const DeviceRecording& recording;
  const ReplayOptions& options;
  const ReplayResult& result;
  std::optional<OomLimit>
      recorded_limit{};  // set if the options have the limits of the recorded run
  double seconds = 0;
};

nlohmann::ordered_json fidelity_json(const std::optional<Fidelity>& fidelity);

nlohmann::ordered_json replay_json(const ReplaySummary& replayed);

}  // namespace ashlar
