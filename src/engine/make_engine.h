// SPDX-License-Identifier: Apache-2.0
//
// The engine that the options ask for.
#pragma once

#include <memory>

#include "ashlar/clock.h"
#include "ashlar/device.h"
#include "ashlar/options.h"
#include "ashlar/status.h"
#include "engine/engine.h"

namespace ashlar {

// `device` and `clock` outlive the engine; without a clock it is the host's. REQUIRES: options that
// src/config would accept.
// Fails only for engines that need something. kInvalidArgument: a plug-in cannot be loaded, options
// that go with it are missing, or the engine has no use for it. kUnsupported: the device has no
// stream-ordered pool. kDeviceFault: the plug-in threw, or the device failed.
Result<std::unique_ptr<Engine>> make_engine(Device& device, const AllocatorOptions& options,
                                            Clock* clock = nullptr);

}  // namespace ashlar
