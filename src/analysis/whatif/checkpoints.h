// SPDX-License-Identifier: Apache-2.0
//
// Edits of the tensors that a function saves for the backward pass: recomputing them (activation
// checkpointing), and moving them to host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/whatif/edited_run.h"
#include "analysis/whatif/invocations.h"
#include "analysis/whatif/stack_paths.h"

namespace ashlar {

// The effect of one edit on a run.
struct EditEffect {
  size_t allocation_count = 0;   // allocations that the edit changed
  size_t invocation_count = 0;   // of the function, with such allocations
  size_t found_invocations = 0;  // all invocations of the function
  size_t recomputed_bytes = 0;   // allocated again by recomputation, in the whole run
  size_t offloaded_bytes = 0;    // copied to the host in the whole run, and copied back later
  // The mean of the complete iterations; if there are none, the bytes of the whole run.
  size_t recomputed_bytes_per_iteration = 0;
  size_t offloaded_bytes_per_iteration = 0;
};

// Frees the saved allocations of each invocation at its end. Before the first backward node that
// needs one of them, repeats the invocation up to its last saved allocation.
EditEffect recompute(EditedRun& run, const StackPaths& paths,
                     const std::vector<Invocation>& invocations);

// Frees what the backward pass of each invocation frees at the end of the invocation, and allocates
// it again before the node that frees it. This includes inputs that the function saves.
EditEffect offload(EditedRun& run, const StackPaths& paths,
                   const std::vector<Invocation>& invocations);

// Returns the allocations of an invocation that are live at its end and freed by a backward pass,
// in the order of their indexes, without the result of the function.
std::vector<uint32_t> saved_by(const EditedRun& run, const StackPaths& paths,
                               const Invocation& invocation);

}  // namespace ashlar
