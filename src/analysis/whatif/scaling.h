// SPDX-License-Identifier: Apache-2.0
//
// Edits of sizes: of selected allocations, and of everything that depends on the batch size.
#pragma once

#include <vector>

#include "analysis/whatif/checkpoints.h"
#include "analysis/whatif/edited_run.h"
#include "ashlar/status.h"

namespace ashlar {

// Multiplies the sizes of the selected requests, but not to 0. kInvalidArgument: the sizes of all
// allocations together exceed 2^63 bytes.
Result<EditEffect> scale(EditedRun& run, const Selection& selected, double factor);

// Returns the requests that depend on the batch size. An allocation does if not every complete
// iteration allocates that size with that stack in that phase, unless the size follows from the
// model. Allocations outside of iterations do not. A failed request does if an allocation with its
// stack does or, if no allocation has its stack, if it failed in a forward pass.
// kInvalidArgument: the recording has fewer than three complete iterations, or less than half of
// the bytes of activations and inputs vary in size.
Result<Selection> find_batch_dependent(const DeviceRecording& recording);

}  // namespace ashlar
