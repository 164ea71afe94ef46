// SPDX-License-Identifier: Apache-2.0
//
// How much a file may make its reader do. Generous for honest files: a history of three million
// entries with stacks needs about a quarter of it.
#pragma once

#include <cstddef>

namespace ashlar {

struct ReadLimits {
  // What the values of one file may take while it is read, not counting spare room of tables.
  size_t value_bytes = size_t{2} << 30;
};

}  // namespace ashlar
