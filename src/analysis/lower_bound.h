// SPDX-License-Identifier: Apache-2.0
//
// The minimum memory of a recorded run: a lower bound for every allocator, and the size of a layout
// of all requests, which is an upper bound for the optimal layout. Both include requests that
// failed: they need their memory at the moment of the failure. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "analysis/allocations.h"
#include "analysis/packing.h"

namespace ashlar {

// requested_bytes <= rounded_bytes <= packed_bytes, and requested_bytes equals
// Timeline::lower_bound. An optimal offline allocator with addresses
// that are multiples of 512 B needs between rounded_bytes and packed_bytes.
struct LowerBound {
  size_t requested_bytes = 0;  // the largest sum of requests in use at the same time
  size_t rounded_bytes = 0;    // peak with each request rounded up to a multiple of 512 B
  size_t packed_bytes = 0;     // size of the best layout found
};

// `keep_going` as in PackingOptions.
LowerBound find_lower_bound(const Allocations& allocations,
                            const std::function<bool()>& keep_going = {});

// Returns the input for pack(): sizes are rounded up to multiples of 512 B, a lifetime ends when
// the free completes, a failed request lives during its entry, and empty allocations are left out.
// Time is the entry index plus one; 0 is before the first entry.
std::vector<Lifetime> lifetimes_of(const Allocations& allocations);

}  // namespace ashlar
