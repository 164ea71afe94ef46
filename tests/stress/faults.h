// SPDX-License-Identifier: Apache-2.0
//
// Draws random faults for the stress tests.
#pragma once

#include "ashlar/sim.h"
#include "base/random.h"

namespace ashlar::stress {

// One of the next calls fails with out of memory or a fault, or is slow.
sim::FaultRule draw_fault(Random& random);

}  // namespace ashlar::stress
