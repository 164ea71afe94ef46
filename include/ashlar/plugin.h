// SPDX-License-Identifier: Apache-2.0
//
// Uses a plug-in (ashlar/c/plugin.h) as the source of a pool's segments. To use a plug-in for all
// allocations, select engine:plugin in the options instead.
//
// Errors: functions throw.
#pragma once

#include <memory>

#include "ashlar/device.h"
#include "ashlar/export.h"
#include "ashlar/options.h"
#include "ashlar/pool.h"

namespace ashlar {

// Loads a plug-in as a value for PoolOptions::source. Throws InvalidArgument if the library cannot
// be loaded, lacks a symbol, or has hooks of another version; DeviceError if the plug-in threw.
ASHLAR_EXPORT std::shared_ptr<SegmentSource> load_plugin(const Device& device,
                                                         const PluginOptions& options);

}  // namespace ashlar
