// SPDX-License-Identifier: Apache-2.0
//
// Functions of the public API that create values from text, files and the environment.
#include "api/unwrap.h"
#include "ashlar/options.h"
#include "ashlar/plugin.h"
#include "config/allocator_options.h"
#include "config/environment.h"
#include "engine/plugin/plugin_source.h"

namespace ashlar {

AllocatorOptions parse_options(std::string_view text, const AllocatorOptions& base) {
  return unwrap(parse_allocator_options(text, base));
}

std::string format_options(const AllocatorOptions& options) {
  return format_allocator_options(options);
}

AllocatorOptions options_from_environment() {
  return unwrap(allocator_options_from(Environment::of_process()));
}

std::shared_ptr<SegmentSource> load_plugin(const Device& device, const PluginOptions& options) {
  return unwrap(PluginSource::create(unwrap(Plugin::load(options)), device));
}

}  // namespace ashlar
