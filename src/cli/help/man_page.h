// SPDX-License-Identifier: Apache-2.0
//
// Generates the man page ashlar(1) from the list of commands.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/help/command_info.h"

namespace ashlar {

// The exit codes in one line, for `ashlar --help` and the man page.
inline constexpr const char* kExitCodes =
    "0 success, 1 error or failed check, 2 usage error, 3 unreadable file";

// Returns the man page in the roff language, with the man macros. `version` is the version of
// Ashlar.
std::string man_page(const std::vector<CommandInfo>& commands, std::string_view version);

}  // namespace ashlar
