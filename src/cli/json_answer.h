// SPDX-License-Identifier: Apache-2.0
//
// Answers for programs: the flag that asks for one, and its text.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace CLI {  // NOLINT(readability-identifier-naming): the name is theirs
class App;
}

namespace ashlar {

// --json. `json` outlives the parser.
void add_json_flag(CLI::App& parser, bool& json);

// One object, and a line's end. Text from files and from the environment may hold any bytes, JSON
// may not: what is not UTF-8 is replaced.
std::string json_answer(const nlohmann::ordered_json& answer);

}  // namespace ashlar
