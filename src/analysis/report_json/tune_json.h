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

  // These functions return null if there is no such trial, or if trials cannot be compared with the
  // recording (TuneResult::can_compare()).
  const Trial* best() const { return trial_or_null(result.best); }
  const Trial* paged() const { return trial_or_null(result.paged); }
  // Returns best(), unless it is the recorded setting, which needs no change.
  const Trial* proposed() const { return result.has_gain() ? best() : nullptr; }

 private:
  const Trial* trial_or_null(std::optional<size_t> index) const {
    return index && result.can_compare() ? &result.trials[*index] : nullptr;
  }
};

nlohmann::ordered_json tune_json(const TuneSummary& tuned);

// The peak is null if the trial is not comparable.
nlohmann::ordered_json trial_json(const Trial& trial);

// Returns one or two sentences: why trials cannot be compared, or which trials and savings the
// comparison omits because memory was reserved before the history began. Returns an empty string if
// the history is complete and memory was reserved.
std::string truncation_text(const DeviceRecording& run, const TuneResult& result);

// Returns one sentence if the replay under the recorded settings differs from the recording, so
// that all results are estimates; otherwise an empty string.
std::string estimate_text(const DeviceRecording& run, const TuneResult& result);

// Returns an assignment for the shell of the recording's platform: PYTORCH_CUDA_ALLOC_CONF="...",
// ASHLAR_ALLOC_CONF="..." or, on Windows, set "PYTORCH_CUDA_ALLOC_CONF=..."
// REQUIRES: can_set(setting, recorded_allocator_of(run.options())).
std::string shell_assignment(const Setting& setting, const DeviceRecording& run);

// Returns a sentence or two about the version of PyTorch that limits which settings are proposed;
// empty for recordings of Ashlar.
std::string assumption_text(const DeviceRecording& run);

// Returns one sentence about how to use the paged engine in the recorded program. Printed wherever
// a PyTorch recording is compared with the paged engine.
std::string paged_usage(const DeviceRecording& run);

}  // namespace ashlar
