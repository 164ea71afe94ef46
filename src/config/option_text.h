// SPDX-License-Identifier: Apache-2.0
//
// The grammar of options as text: "name:value,name:[entry:value,entry:value]", with whitespace
// around words ignored. Independent of the options themselves; see allocator_options.h. Pure
// functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ashlar/status.h"

namespace ashlar {

// An entry of a list, such as "256:4".
struct ListEntry {
  std::string_view name;
  std::string_view value;
};

// An option and its value, written as "name:value". The views refer to the parsed text; names and
// values are not empty.
struct OptionAssignment {
  std::string_view name;
  std::string_view value;  // as written, including the brackets of a list
  bool is_list = false;
  std::vector<ListEntry> entries{};  // lists only; empty for "[]"
};

// Parses option text into assignments, in order. Empty text and whitespace yield no assignments.
// kInvalidArgument: a syntax error; the message quotes the surrounding text and says what was
// expected.
Result<std::vector<OptionAssignment>> parse_option_text(std::string_view text);

// Shortens user text to one line of limited length, for messages.
std::string excerpt(std::string_view given);
// Returns the excerpt in double quotes.
std::string in_quotes(std::string_view given);

}  // namespace ashlar
