// SPDX-License-Identifier: Apache-2.0
//
// Converts kernel results to the statuses that host operations return.
#pragma once

#include <chrono>

#include "symm/backends/cuda/kernels/arguments.h"
#include "symm/signals/signal_pad.h"

namespace ashlar::symm {

// Returns the error for a kernel that timed out. `pads` contains a host copy of this rank's pad.
// REQUIRES: the kernel timed out.
Status timeout_status(const kernels::KernelResult& result, const SignalPads& pads);
// Returns the error for a collective whose calls did not match or that could not continue. `rank`
// is this rank. REQUIRES: `result` is an error of this kind.
Status mismatch_status(const kernels::KernelResult& result, int rank);

}  // namespace ashlar::symm
