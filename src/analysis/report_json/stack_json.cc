// SPDX-License-Identifier: Apache-2.0
//
// Converts the frames of a stack. Names and paths are not abbreviated.
#include "analysis/report_json/stack_json.h"

#include <nlohmann/json.hpp>

namespace ashlar {

nlohmann::ordered_json stack_json(const std::vector<const Frame*>& frames) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Frame* frame : frames) {
    list.push_back({{"name", frame->name}, {"filename", frame->filename}, {"line", frame->line}});
  }
  return list;
}

}  // namespace ashlar
