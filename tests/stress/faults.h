// SPDX-License-Identifier: Apache-2.0
//
// Which call of a device goes wrong next, and how.
#pragma once

#include "ashlar/sim.h"
#include "base/random.h"

namespace ashlar::stress {

// One call, soon: it finds no memory, or a fault, or takes longer.
sim::FaultRule draw_fault(Random& random);

}  // namespace ashlar::stress
