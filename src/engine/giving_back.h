// SPDX-License-Identifier: Apache-2.0
//
// Which of several pieces of cached memory go back to the device when only so much of it is wanted.
// The same for every engine; what is preferred is for the engine to say.
#pragma once

#include <cstddef>
#include <vector>

#include "ashlar/trace.h"
#include "ashlar/trim.h"

namespace ashlar {

// How far a trim goes, and at what price.
struct TrimTarget {
  size_t reserved_bytes = 0;  // what may stay
  TrimWait wait = TrimWait::kNever;
  StackId stack{};  // of the caller, where history asks for it
};

// Of pieces in order of preference, the positions of those whose sizes add up to `wanted_bytes`, or
// of all that there are. None is chosen that the others make needless, so that a small wish does
// not cost a large piece.
std::vector<size_t> choose_pieces(const std::vector<size_t>& sizes, size_t wanted_bytes);

}  // namespace ashlar
