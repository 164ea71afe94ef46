// SPDX-License-Identifier: Apache-2.0
//
// The grammar of options as text: "name:value,name:[entry:value,entry:value]", with whitespace
// around the words dropped. It knows no option; allocator_options.h says what the names mean.
// Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ashlar/status.h"

namespace ashlar {

// "256:4" within a list.
struct ListEntry {
  std::string_view name;
  std::string_view value;
};

// One "name:value". All views are into the text it was read from; no word is empty.
struct OptionAssignment {
  std::string_view name;
  std::string_view value;  // as written; of a list, with its brackets
  bool is_list = false;
  std::vector<ListEntry> entries{};  // of a list; "[]" has none
};

// In their order. A text of nothing but whitespace holds none.
// kInvalidArgument: not of that form; the message says where, and what was expected.
Result<std::vector<OptionAssignment>> read_option_text(std::string_view text);

// Text that somebody gave us, for use in a message: on one line, and not too long.
std::string excerpt(std::string_view given);
// The same in double quotes.
std::string in_quotes(std::string_view given);

}  // namespace ashlar
