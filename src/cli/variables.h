// The ASHLAR_* environment variables as text, for `ashlar info` and `ashlar --help`.
#pragma once

#include <string>

#include "config/environment.h"

namespace ashlar {

// One line each: what is set now, what it would be otherwise, and what it sets.
std::string variables_in(const Environment& environment);

// What each expects, and why one would set it.
std::string variables_help();

}  // namespace ashlar
