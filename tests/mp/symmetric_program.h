// SPDX-License-Identifier: Apache-2.0
//
// What a program does with symmetric memory, and whether it comes out right: the same wherever the
// ranks are. It uses no view of another rank's memory.
#pragma once

#include <cstddef>
#include <string>

#include "mp/symmetric_rank.h"

namespace ashlar::symm {

inline constexpr size_t kProgramBytes = size_t{64} * 1024;

// Collective, each. REQUIRES: `own` has kProgramBytes. They return what is wrong, or nothing.

// Every collective, put and get from the handle's offset on, with guard bytes around.
std::string try_collectives(SymmetricRank& own, const Handle& handle);
// All-reduces of numbers whose sum depends on the order: all ranks get the same bits, and those of
// adding in rank order.
std::string compare_bits(SymmetricRank& own);
// Signals, counters and barriers, with data that must arrive before them.
std::string try_signals(SymmetricRank& own);
// Words that all ranks change at once, wherever they are.
std::string try_words(SymmetricRank& own);
// All of these.
std::string run_program(SymmetricRank& own);

}  // namespace ashlar::symm
