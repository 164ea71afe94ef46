// SPDX-License-Identifier: Apache-2.0
//
// Draws random faults for the stress tests.
#pragma once

#include "ashlar/sim.h"
#include "base/random.h"

namespace ashlar::stress {

// Draws a rule that makes one of the next calls slow, or makes it fail with out of memory or a
// fault.
sim::FaultRule draw_fault(Random& random);

}  // namespace ashlar::stress
