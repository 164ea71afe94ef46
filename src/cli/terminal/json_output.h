// SPDX-License-Identifier: Apache-2.0
//
// JSON output for scripts: the --json flag and the text form.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's namespace
class App;
}

namespace ashlar {

// Declares --json. `json` must outlive the parser.
void add_json_flag(CLI::App& parser, bool& json);

// Formats one object, indented, with a trailing line feed. Replaces bytes that are not UTF-8, since
// file names and environment values may contain any bytes, and escapes unprintable characters.
std::string format_json(const nlohmann::ordered_json& value);

}  // namespace ashlar
