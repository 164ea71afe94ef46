// SPDX-License-Identifier: Apache-2.0
//
// What the terminal that shows an answer can do.
#pragma once

#include <cstddef>

#include "config/environment.h"

namespace ashlar {

struct Terminal {
  size_t width = 80;
  size_t height = 24;
  bool is_utf8 = false;
};

// The width is that of the terminal on standard output, within reason, or 80 where there is none.
// The characters are those of the locale that the environment asks for.
Terminal terminal_in(const Environment& environment);

}  // namespace ashlar
