// SPDX-License-Identifier: Apache-2.0
//
// Creates the engine that the options select, loading a plug-in if necessary.
#include "engine/factory/make_engine.h"

#include "engine/async/async_engine.h"
#include "engine/classic/classic_engine.h"
#include "engine/paged/paged_engine.h"
#include "engine/plugin/plugin_engine.h"

namespace ashlar {
namespace {

using EngineResult = Result<std::unique_ptr<Engine>>;

// Checks that a plug-in library comes with its two function names and an engine that supports it.
Status check_plugin(const AllocatorOptions& options) {
  const PluginOptions& plugin = options.plugin;
  if (options.engine == EngineKind::kPlugin && plugin.library.empty()) {
    return Status::invalid_argument("engine:plugin needs a plugin_library to take its memory from");
  }
  if (plugin.library.empty()) return {};
  if (options.engine == EngineKind::kPaged) {
    return Status::invalid_argument(
        "plugin_library: the paged engine maps its memory itself (expected engine:plugin or "
        "engine:classic; a pool of any engine may have a plug-in as its source)");
  }
  if (options.engine == EngineKind::kAsync) {
    return Status::invalid_argument(
        "plugin_library: engine:async takes its memory from the driver's pool (expected "
        "engine:plugin or engine:classic)");
  }
  if (!plugin.alloc_symbol.empty() && !plugin.free_symbol.empty()) return {};
  return Status::invalid_argument(
      "plugin_library needs plugin_alloc and plugin_free, the names of its two functions");
}

EngineResult make_plugin(Device& device, const AllocatorOptions& options) {
  Result<std::shared_ptr<const Plugin>> plugin = Plugin::load(options.plugin);
  if (!plugin.ok()) return plugin.status();
  Result<std::unique_ptr<PluginEngine>> engine =
      PluginEngine::create(device, options, *std::move(plugin));
  if (!engine.ok()) return engine.status();
  return std::unique_ptr<Engine>(*std::move(engine));
}

EngineResult make_async(Device& device, const AllocatorOptions& options) {
  Result<std::unique_ptr<AsyncEngine>> engine = AsyncEngine::create(device, options);
  if (!engine.ok()) return engine.status();
  return std::unique_ptr<Engine>(*std::move(engine));
}

EngineResult make_classic(Device& device, const AllocatorOptions& options) {
  classic::SourceConfig source;
  if (!options.plugin.library.empty()) {
    Result<std::shared_ptr<const Plugin>> plugin = Plugin::load(options.plugin);
    if (!plugin.ok()) return plugin.status();
    Result<std::shared_ptr<PluginSource>> created =
        PluginSource::create(*std::move(plugin), device);
    if (!created.ok()) return created.status();
    source.source = *std::move(created);
  }
  return std::unique_ptr<Engine>(
      std::make_unique<classic::ClassicEngine>(device, options, std::move(source)));
}

}  // namespace

EngineResult make_engine(Device& device, const AllocatorOptions& options, Clock* clock) {
  if (Status checked = check_plugin(options); !checked.ok()) return checked;
  switch (options.engine) {
    case EngineKind::kClassic: break;
    case EngineKind::kPaged:
      return std::unique_ptr<Engine>(std::make_unique<paged::PagedEngine>(device, options, clock));
    case EngineKind::kPlugin: return make_plugin(device, options);
    case EngineKind::kAsync: return make_async(device, options);
  }
  return make_classic(device, options);
}

}  // namespace ashlar
