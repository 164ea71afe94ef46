// SPDX-License-Identifier: Apache-2.0
//
// The table of environment variables as text.
#pragma once

#include <string>

#include "config/environment.h"

namespace ashlar {

// Lists the variables of the simulated machine, one per line, with current value, default and
// meaning.
std::string machine_variables_text(const Environment& environment);

// Describes all variables: what each variable sets, accepts and defaults to, and why to set it.
std::string environment_help();

}  // namespace ashlar
