// SPDX-License-Identifier: Apache-2.0
//
// Converts kernel results to the statuses that host operations return.
#pragma once

#include <chrono>

#include "symm/backends/cuda/kernels/arguments.h"
#include "symm/signals/signal_pad.h"

namespace ashlar::symm {

// `pads` contains a host copy of this rank's pad. REQUIRES: the kernel timed out.
Status timeout_status(const kernels::KernelResult& result, const SignalPads& pads);
// `rank` is this rank. REQUIRES: the calls to a collective did not match, or could not continue.
Status mismatch_status(const kernels::KernelResult& result, int rank);

}  // namespace ashlar::symm
