// SPDX-License-Identifier: Apache-2.0
//
// Size and encoding of the terminal on standard output.
#pragma once

#include <cstddef>

#include "config/environment.h"

namespace ashlar {

struct Terminal {
  size_t width = 80;
  size_t height = 24;
  bool is_utf8 = false;
};

// Detects the size and the encoding. The width is clamped to between 60 and 160 columns. If
// standard output is not a terminal, the size is the default. The encoding comes from LC_ALL,
// LC_CTYPE or LANG.
Terminal detect_terminal(const Environment& environment);

}  // namespace ashlar
