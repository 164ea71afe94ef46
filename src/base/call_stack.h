// SPDX-License-Identifier: Apache-2.0
//
// The return addresses of the calling thread, and the names behind them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ashlar {

// Fills in the callers' addresses, innermost first, and says how many there are. The stack begins
// with the return address `first`, if that is on it: counting frames instead would go wrong with
// every function that the compiler inlines. No lock, no heap.
size_t capture_call_stack(std::span<uint64_t> addresses, const void* first);

}  // namespace ashlar
