// SPDX-License-Identifier: Apache-2.0
//
// Divides a trace into phases. Pure function.
#pragma once

#include <vector>

#include "analysis/training/iterations.h"
#include "analysis/training/training_trace.h"

namespace ashlar {

// Returns the phases in order; they cover the whole trace.
std::vector<PhaseSpan> find_phases(const TrainingTrace& trace);

}  // namespace ashlar
