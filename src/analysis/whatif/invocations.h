// SPDX-License-Identifier: Apache-2.0
//
// Finds the invocations of a function in a run. Pure function.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/whatif/edited_run.h"
#include "analysis/whatif/name_resolver.h"
#include "analysis/whatif/stack_paths.h"

namespace ashlar {

// The operations [first, end) of one invocation, including those of autograd threads in between.
struct Invocation {
  uint32_t first = 0;
  uint32_t end = 0;
};

// Returns the invocations that allocate, in order. An invocation is a sequence of consecutive
// operations of the program with the function on the stack and the same callers. Calls that follow
// each other directly are separated where an allocation with the stack of the sequence's last
// allocation precedes one with the stack of its first. If these stacks are equal, as in
// `down(gelu(up(x)))`, a call may begin and end with several such allocations; the beginning and
// the end of the sequence show how many. A recursive call belongs to the outermost.
std::vector<Invocation> find_invocations(const EditedRun& run, const StackPaths& paths,
                                         const FrameSet& function);

}  // namespace ashlar
