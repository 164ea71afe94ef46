// SPDX-License-Identifier: Apache-2.0
//
// The JSON of `ashlar whatif`.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "analysis/whatif/what_if.h"

namespace ashlar {

// Returns {"file", "device", "before", "after", "change", "edits", "after_stacks", "iterations",
// "warnings"}. "before" and "after" contain each peak in bytes, its entry, iteration and phase, and
// the highest requested bytes of each phase.
nlohmann::ordered_json what_if_json(const DeviceRecording& run, const WhatIfResult& result);

// Returns the phase of an entry and, if it is in an iteration, the iteration: "backward, iteration
// 3". If `entry` is unset, returns "before the recording".
std::string moment_text(const DeviceRecording& run, std::optional<uint32_t> entry);

}  // namespace ashlar
