// SPDX-License-Identifier: Apache-2.0
//
// Plug-ins as a program sees them: failures become exceptions.
#include "ashlar/plugin.h"

#include "api/unwrap.h"
#include "engine/plugin/plugin_source.h"

namespace ashlar {

std::shared_ptr<SegmentSource> load_plugin(const Device& device, const PluginOptions& options) {
  return unwrap(PluginSource::create(unwrap(Plugin::load(options)), device));
}

}  // namespace ashlar
