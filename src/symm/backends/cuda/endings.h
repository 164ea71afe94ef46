// SPDX-License-Identifier: Apache-2.0
//
// What kernels said of how they ended, as the host says it of itself.
#pragma once

#include <chrono>

#include "symm/backends/cuda/kernels/arguments.h"
#include "symm/signals/signal_pad.h"

namespace ashlar::symm {

// `pads` has a copy of this rank's own. REQUIRES: it timed out.
Status status_of_timeout(const kernels::Ending& ending, const SignalPads& pads);
// REQUIRES: the ranks of a collective do not agree, in one way or another; `rank`: this one.
Status status_of_disagreement(const kernels::Ending& ending, int rank);

}  // namespace ashlar::symm
