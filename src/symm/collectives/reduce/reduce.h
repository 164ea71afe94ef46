// SPDX-License-Identifier: Apache-2.0
//
// Several rows of elements reduced to one. Knows no ranks.
//
// Sources are combined one after the other in the order given, each element by itself, so that who
// computes it does not matter. f16 and bf16 are combined as f32 and rounded once, at the end. A NaN
// makes the result NaN, also of min and max. Integers wrap; their avg does not: it is the exact
// mean, rounded toward zero. The avg of floating-point numbers is their sum divided by how many
// they are.
#pragma once

#include <cstddef>
#include <span>

#include "symm/collectives/reduce/element.h"
#include "symm/collectives/reduce/rows.h"

namespace ashlar::symm {

// REQUIRES: check_reducible; at least one source; all aligned to an element. `out` may be one of
// the sources, but must not overlap one otherwise.
void reduce(const Reduction& what, std::span<const std::byte* const> sources, std::byte* out,
            size_t count, const Rows& rows = best_rows());

}  // namespace ashlar::symm
