// SPDX-License-Identifier: Apache-2.0
//
// Serializes JSON responses.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace ashlar::view {

// Returns compact JSON. Strings from files may contain any bytes; invalid UTF-8 becomes U+FFFD.
inline std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace ashlar::view
