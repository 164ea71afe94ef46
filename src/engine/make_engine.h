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
// Fails only where a plug-in is asked for. kUsage: it cannot be loaded, options that go with it are
// missing, or the engine has no use for it. kDeviceFault: it threw.
Result<std::unique_ptr<Engine>> make_engine(Device& device, const AllocatorOptions& options,
                                            Clock* clock = nullptr);

}  // namespace ashlar
