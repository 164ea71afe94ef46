// SPDX-License-Identifier: Apache-2.0
//
// Creates the engine that the options select.
#pragma once

#include <memory>

#include "ashlar/clock.h"
#include "ashlar/device.h"
#include "ashlar/options.h"
#include "ashlar/status.h"
#include "engine/engine.h"

namespace ashlar {

// Creates the engine that the options select. `device` and `clock` outlive the engine; a null clock
// means the host's clock. REQUIRES: check_allocator_options accepts `options`. kInvalidArgument:
// the plug-in cannot be loaded, its options are incomplete, or the engine does not support
// plug-ins. kUnsupported: engine:async is selected, and the device has no stream-ordered pool.
// kDeviceFault: the plug-in threw, or the device failed.
Result<std::unique_ptr<Engine>> make_engine(Device& device, const AllocatorOptions& options,
                                            Clock* clock = nullptr);

}  // namespace ashlar
