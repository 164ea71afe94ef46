// SPDX-License-Identifier: Apache-2.0
//
// Colours and bold text as ANSI escape sequences. Callers style unconditionally: Console::print()
// removes the sequences unless standard output is a terminal with colours enabled.
#pragma once

#include <string>
#include <string_view>

#include "config/environment.h"

namespace ashlar {

std::string bold(std::string_view text);
std::string red(std::string_view text);
std::string green(std::string_view text);

// Removes the sequences that the functions above insert.
std::string strip_style(std::string_view text);

// Replaces unprintable characters by "?", except tabs, line feeds and the sequences that the
// functions above insert. Text from files can therefore change its own style, but cannot otherwise
// control the terminal.
std::string safe_for_terminal(std::string_view text);

// Returns whether to print colours on `descriptor`: if it is a terminal, TERM is set and not
// "dumb", and NO_COLOR is not set (https://no-color.org).
bool wants_color(const Environment& environment, int descriptor);

}  // namespace ashlar
