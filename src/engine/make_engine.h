// The engine that the options ask for.
#pragma once

#include <memory>

#include "ashlar/device.h"
#include "ashlar/options.h"
#include "engine/engine.h"

namespace ashlar {

// `device` outlives the engine. REQUIRES: options that src/config would accept.
std::unique_ptr<Engine> make_engine(Device& device, const AllocatorOptions& options);

}  // namespace ashlar
