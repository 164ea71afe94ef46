// SPDX-License-Identifier: Apache-2.0
//
// Searches for the cheapest changes with which a recorded program fits a device: settings and
// engines, then zero_grad(set_to_none=True), then recomputation, then offloading. Greedy: each step
// adds the edit that gains most for what it costs, as a replay of the edited recording shows.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/settings.h"
#include "analysis/whatif/candidate_functions.h"
#include "analysis/whatif/what_if.h"

namespace ashlar {

struct FitOptions {
  size_t limit_bytes = 0;        // the capacity of the device
  ReplayOptions recorded{};      // the settings and limits of the recorded run
  AvailableOptions available{};  // settings with other options are not tried
  NameSources names{};
  // The search stops early after this many operations of replayed or edited runs. The default takes
  // less than a minute of one core.
  uint64_t max_operations = 25'000'000;
  std::function<void(double share)> progress{};  // called regularly
  std::function<bool()> keep_going{};            // polled; false cancels with kTimeout
};

// An edit of a proposal.
struct FitEdit {
  Edit edit{};
  std::optional<CandidateFunction> function{};  // of --recompute and --offload
};

struct FitProposal {
  std::vector<FitEdit> edits{};
  std::optional<Setting> setting{};  // unset: the recorded setting
  WhatIfResult prediction{};
};

struct FitResult {
  size_t limit_bytes = 0;
  bool fits_as_recorded = false;         // no change is needed, and there are no proposals
  std::vector<FitProposal> proposals{};  // each fits; cheapest first
  // If there is no proposal: the edits that come closest, without the limit. Has no edits if none
  // gains much.
  std::optional<FitProposal> closest{};
  size_t replay_count = 0;      // replays under the limit
  size_t tried_edit_count = 0;  // edits whose gain was computed
  size_t candidate_count = 0;   // functions that the recording identifies
  bool is_complete = true;      // false: max_operations was reached
};

// kInvalidArgument and kTimeout: see replay().
Result<FitResult> find_fit(const DeviceRecording& recording, const FitOptions& options);

}  // namespace ashlar
