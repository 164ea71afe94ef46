// SPDX-License-Identifier: Apache-2.0
//
// JSON for the page.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace ashlar::view {

// Text from files may hold any bytes, JSON may not: what is not UTF-8 is replaced.
inline std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace ashlar::view
