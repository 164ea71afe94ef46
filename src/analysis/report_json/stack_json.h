// SPDX-License-Identifier: Apache-2.0
//
// Converts call stacks to JSON for reports.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "analysis/recording.h"
#include "analysis/stack_index.h"
#include "ashlar/snapshot.h"

namespace ashlar {

// Adds the frames of a stack to an object: "stack", the shown frames, and "full_stack", all frames
// (StackIndex::full_frames). REQUIRES: number < stacks.size().
void put_stack(nlohmann::ordered_json& json, const StackIndex& stacks, uint32_t number);

// Adds the frames of one stack to an object: "frames", the shown frames, and "full_frames", all
// frames.
void put_frames(nlohmann::ordered_json& json, const Recording& recording, StackId stack);

// Returns [{"name", "filename", "line"}, ...], innermost frame first, with full paths.
nlohmann::ordered_json stack_json(const std::vector<const Frame*>& frames);

}  // namespace ashlar
