// SPDX-License-Identifier: Apache-2.0
//
// Captures the return addresses of the calling thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ashlar {

// Fills `addresses` with return addresses, innermost first, and returns their number. Drops the
// frames before the return address `first`, if it is on the stack. (Dropping a fixed number of
// frames would break with inlining.) Takes none of Ashlar's locks and allocates nothing.
size_t capture_call_stack(std::span<uint64_t> addresses, const void* first);

}  // namespace ashlar
