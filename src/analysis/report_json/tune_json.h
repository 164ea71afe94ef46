// SPDX-License-Identifier: Apache-2.0
//
// What `ashlar tune` answers to programs; of settings that were tried, what others say of them,
// too.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "analysis/recording.h"
#include "analysis/replay/tune.h"

namespace ashlar {

struct Tuned {
  const DeviceRecording& recording;
  const TuneOptions& options;
  const TuneResult& result;

  const Trial* best() const { return result.best ? &result.trials[*result.best] : nullptr; }
  const Trial* paged() const { return result.paged ? &result.trials[*result.paged] : nullptr; }
};

nlohmann::ordered_json tune_json(const Tuned& tuned);

nlohmann::ordered_json trial_json(const Trial& trial);

// For a shell: PYTORCH_CUDA_ALLOC_CONF="…", or ASHLAR_ALLOC_CONF="…".
// REQUIRES: can_be_set(setting, origin).
std::string line_to_paste(const Setting& setting, Origin origin);

// Said wherever a run of PyTorch's is compared with the paged engine, so that nobody pastes it.
inline constexpr const char* kWhoGetsPaged =
    "Programs that allocate through Ashlar get it by default; PyTorch has no setting for it.";

}  // namespace ashlar
