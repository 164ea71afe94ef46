// SPDX-License-Identifier: Apache-2.0
//
// Finds where a node of a backward pass begins and ends, from the order of operations: a node
// allocates its results and temporaries, then frees its inputs and saved tensors. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/whatif/edited_run.h"
#include "analysis/whatif/stack_paths.h"

namespace ashlar {

// Returns the first operation of the node that performs the operation `free`: steps back over the
// frees directly before it, then over allocations and the frees of the node's temporaries.
// REQUIRES: `free` is a kFreeRequested operation of a backward pass.
uint32_t begin_of_node(const EditedRun& run, const StackPaths& paths, uint32_t free);

// Returns for each operation whether it frees a temporary of a node: every allocation that is freed
// while the temporary is live was also made while it was live.
std::vector<bool> find_temporary_frees(const EditedRun& run, const StackPaths& paths);

// Returns the operation after the node that performs the operation `alloc`: steps forward over
// allocations and temporaries, then over other frees. `temporaries` is the result of
// find_temporary_frees().
// REQUIRES: `alloc` is a kAlloc operation of a backward pass.
uint32_t end_of_node(const EditedRun& run, const StackPaths& paths,
                     const std::vector<bool>& temporaries, uint32_t alloc);

}  // namespace ashlar
