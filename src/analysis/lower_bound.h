// SPDX-License-Identifier: Apache-2.0
//
// The least memory that a recorded run could have done with: a bound that nobody can beat, and a
// packing of all its allocations that shows how close one can come. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/allocations.h"
#include "analysis/packing.h"

namespace ashlar {

// requested_bytes <= rounded_bytes <= packed_bytes. What an allocator that knows the future needs,
// if addresses are multiples of 512 B, lies between the last two.
struct LowerBound {
  size_t requested_bytes = 0;  // the peak of what was asked for and not yet given back
  size_t rounded_bytes = 0;    // the same, each rounded up to a multiple of 512 B
  size_t packed_bytes = 0;     // the height of the best packing found
};

LowerBound find_lower_bound(const Allocations& allocations);

// The allocations as they are packed: rounded up to 512 B, pending time included, empty ones left
// out. Time is the entry, counted from 1; 0 is before the first.
std::vector<Lifetime> lifetimes_of(const Allocations& allocations);

}  // namespace ashlar
