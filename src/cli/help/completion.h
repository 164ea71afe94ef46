// SPDX-License-Identifier: Apache-2.0
//
// Completion scripts for shells.
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
