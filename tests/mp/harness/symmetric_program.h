// SPDX-License-Identifier: Apache-2.0
//
// A program that exercises and checks symmetric memory. It uses no views of other ranks' memory, so
// it runs unchanged on one machine and across machines.
#pragma once

#include <cstddef>
#include <string>

#include "mp/harness/symmetric_rank.h"

namespace ashlar::symm {

inline constexpr size_t kProgramBytes = size_t{64} * 1024;

// All functions are collective and return an error description, or an empty string on success.
// REQUIRES: `own` has kProgramBytes of memory.

// Runs every collective except the multimem ones, and put and get, at the handle's offset, between
// guard bytes.
std::string check_collectives(SymmetricRank& own, const Handle& handle);
// All-reduces numbers whose sum depends on the order of additions. All ranks must have the same
// bits; for f32, these must be the bits of the sum in rank order.
std::string check_reduction_bits(SymmetricRank& own);
// Checks that data arrives before the signals, counters and barriers that follow it.
std::string check_signals(SymmetricRank& own);
// Checks atomic operations by all ranks on the same words.
std::string check_atomics(SymmetricRank& own);
// Runs all checks above.
std::string run_program(SymmetricRank& own);

}  // namespace ashlar::symm
