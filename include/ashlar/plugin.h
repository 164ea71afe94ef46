// SPDX-License-Identifier: Apache-2.0
//
// Somebody else's allocator as the source of a pool's memory; include/ashlar/c/plugin.h has the
// shape of its functions. As a whole engine it is named by options: engine:plugin.
#pragma once

#include <memory>

#include "ashlar/device.h"
#include "ashlar/export.h"
#include "ashlar/options.h"
#include "ashlar/pool.h"

namespace ashlar {

// For PoolOptions::source. Throws InvalidArgument: the library cannot be loaded, has not these
// symbols, or hooks of another version. DeviceError: the plug-in threw.
ASHLAR_EXPORT std::shared_ptr<SegmentSource> load_plugin(const Device& device,
                                                         const PluginOptions& options);

}  // namespace ashlar
