// SPDX-License-Identifier: Apache-2.0
//
// The JSON of `ashlar whatif --fit`, and the strings about proposals that its text shares.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "analysis/whatif/fit.h"

namespace ashlar {

// The arguments of the search that the commands which verify its proposals repeat.
struct FitArguments {
  std::string limit{};  // as typed
  std::vector<std::string> sources{};
  std::optional<uint64_t> device{};
};

// Returns what to change in the program for an edit: "call forward (train.py:50-52) through
// torch.utils.checkpoint.checkpoint(..., use_reentrant=False)".
std::string change_text(const FitEdit& edit);
// Returns how to use a setting: an assignment for the shell, or how to enable another engine.
std::string setting_change_text(const DeviceRecording& run, const Setting& setting);
// Returns the command that predicts the proposal alone, as its arguments: "ashlar", "whatif", ...
std::vector<std::string> verifying_command(const DeviceRecording& run, const FitProposal& proposal,
                                           const FitArguments& arguments);

// Returns {"file", "device", "limit_bytes", "fits_as_recorded", "proposals", "closest",
// "candidates", "edits_tried", "replays", "is_complete"}. Each proposal contains the changes, their
// price per iteration, "before" and "after" as in what_if_json(), and "verify", the arguments of
// the command that predicts it alone. "closest" is null unless there are no proposals.
nlohmann::ordered_json fit_json(const DeviceRecording& run, const FitResult& result,
                                const FitArguments& arguments);

}  // namespace ashlar
