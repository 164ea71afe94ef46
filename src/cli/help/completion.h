// SPDX-License-Identifier: Apache-2.0
//
// Generates completion scripts for bash, zsh and fish from the list of commands.
#pragma once

#include <string>
#include <vector>

#include "cli/help/command_info.h"

namespace ashlar {

// Each script completes sub-commands, options, choices and file names.
std::string bash_completion(const std::vector<CommandInfo>& commands);
std::string zsh_completion(const std::vector<CommandInfo>& commands);
std::string fish_completion(const std::vector<CommandInfo>& commands);

}  // namespace ashlar
