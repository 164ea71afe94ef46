// SPDX-License-Identifier: Apache-2.0
//
// The JSON of `ashlar tune`, and strings about settings that other reports share.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "analysis/recording.h"
#include "analysis/replay/tune.h"

namespace ashlar {

struct TuneSummary {
  const DeviceRecording& recording;
  const TuneOptions& options;
  const TuneResult& result;

  const Trial* best() const { return result.best ? &result.trials[*result.best] : nullptr; }
  const Trial* paged() const { return result.paged ? &result.trials[*result.paged] : nullptr; }
};

nlohmann::ordered_json tune_json(const TuneSummary& tuned);

nlohmann::ordered_json trial_json(const Trial& trial);

// Returns a shell assignment: PYTORCH_CUDA_ALLOC_CONF="...", or ASHLAR_ALLOC_CONF="...".
// REQUIRES: can_set(setting, allocator_kind).
std::string shell_assignment(const Setting& setting, RecordedAllocator allocator_kind);

// Printed wherever a PyTorch recording is compared with the paged engine.
inline constexpr const char* kPagedAvailability =
    "Programs that allocate through Ashlar use it by default; PyTorch has no setting for it.";

}  // namespace ashlar
