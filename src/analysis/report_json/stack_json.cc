// SPDX-License-Identifier: Apache-2.0
//
// Converts the frames of a stack. Names and paths are not abbreviated.
#include "analysis/report_json/stack_json.h"

#include <nlohmann/json.hpp>

namespace ashlar {

void put_stack(nlohmann::ordered_json& json, const StackIndex& stacks, uint32_t number) {
  json["stack"] = stack_json(stacks.frames(number));
  json["full_stack"] = stack_json(stacks.full_frames(number));
}

void put_frames(nlohmann::ordered_json& json, const Recording& recording, StackId stack) {
  json["frames"] = stack_json(recording.frames(stack));
  json["full_frames"] = stack_json(recording.frames(stack, StackDetail::kFull));
}

nlohmann::ordered_json stack_json(const std::vector<const Frame*>& frames) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Frame* frame : frames) {
    list.push_back({{"name", frame->name}, {"filename", frame->filename}, {"line", frame->line}});
  }
  return list;
}

}  // namespace ashlar
