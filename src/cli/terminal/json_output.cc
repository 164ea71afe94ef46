// SPDX-License-Identifier: Apache-2.0
//
// Declares the --json flag, and serializes JSON with indentation.
#include "cli/terminal/json_output.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "format/utf8.h"

namespace ashlar {

void add_json_flag(CLI::App& parser, bool& json) {
  parser.add_flag("--json", json, "Print one JSON object and nothing else")
      ->disable_flag_override();
}

std::string format_json(const nlohmann::ordered_json& value) {
  const std::string json =
      value.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return escape_unprintable(json) + "\n";  // unprintable characters occur only in strings
}

}  // namespace ashlar
