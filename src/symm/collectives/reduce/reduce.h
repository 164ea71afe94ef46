// SPDX-License-Identifier: Apache-2.0
//
// Reduces several arrays to one, element by element.
//
// Sources are combined in the order given, so the result does not depend on which rank computes it.
// f16 and bf16 are combined as f32 and rounded once, at the end. A NaN makes the result NaN, also
// for min and max. Integers wrap, except for avg, which is the exact mean rounded toward zero. The
// avg of floating-point numbers is their sum divided by their count.
#pragma once

#include <cstddef>
#include <span>

#include "symm/collectives/reduce/element.h"
#include "symm/collectives/reduce/reduce_kernels.h"

namespace ashlar::symm {

// Reduces `count` elements of each source to `out`. REQUIRES: check_reducible returned ok; there is
// at least one source; all arrays are aligned to the size of an element. `out` may equal a source
// but must not partially overlap one.
void reduce(const Reduction& reduction, std::span<const std::byte* const> sources, std::byte* out,
            size_t count, const ReduceKernels& kernels = best_kernels());

}  // namespace ashlar::symm
