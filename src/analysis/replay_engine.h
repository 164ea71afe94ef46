// SPDX-License-Identifier: Apache-2.0
//
// The engine that a recorded run is lived through with again.
#pragma once

#include <memory>

#include "ashlar/clock.h"
#include "ashlar/device.h"
#include "ashlar/options.h"
#include "ashlar/status.h"
#include "engine/engine.h"

namespace ashlar {

// Puts it into `engine`, which both outlive. kInvalidArgument: the options name a plug-in. They may
// come from a file that somebody sent, which must not name code to run.
Status make_replayed(Device& device, const AllocatorOptions& options, Clock& clock,
                     std::unique_ptr<Engine>& engine);

}  // namespace ashlar
