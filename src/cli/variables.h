// SPDX-License-Identifier: Apache-2.0
//
// The environment variables as text, for `ashlar info` and `ashlar --help`.
#pragma once

#include <string>

#include "config/environment.h"

namespace ashlar {

// Those that shape the simulated machine, one line each: what is set now, what it would be
// otherwise, and what it sets.
std::string machine_variables_in(const Environment& environment);

// All of them: what each expects, and why one would set it.
std::string variables_help();

}  // namespace ashlar
