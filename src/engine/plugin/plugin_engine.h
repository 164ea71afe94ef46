// SPDX-License-Identifier: Apache-2.0
//
// A plug-in as an engine: the plug-in receives every allocation and free of the default pool, as in
// PyTorch. The engine adds statistics, history, snapshots, limits and private pools. ClassicEngine
// does the bookkeeping and takes its memory from the plug-in; this class calls the plug-in's hooks.
//
// Private pools get whole segments from the plug-in, unless they have their own source, and keep
// them at least until the pool is released, because graphs rely on stable addresses.
#pragma once

#include <map>
#include <memory>

#include "engine/classic/classic_engine.h"
#include "engine/plugin/plugin_source.h"

namespace ashlar {

class PluginEngine final : public classic::ClassicEngine {
 public:
  // `device` outlives the engine. REQUIRES: check_allocator_options accepts `options`.
  static Result<std::unique_ptr<PluginEngine>> create(Device& device,
                                                      const AllocatorOptions& options,
                                                      std::shared_ptr<const Plugin> plugin);

  Status record_stream(Block* block, const DeviceStream& use) override;
  Status trim(PoolId pool = {}, StackId stack = {}) override;
  Status set_memory_fraction(double fraction) override;
  BlockMemory block_memory(const Block* block) const override;
  Status begin_routing(PoolId pool, RouteFilter filter) override;
  Status end_routing(PoolId pool) override;
  Status release_pool(PoolId pool) override;
  bool is_caching() const override { return false; }

 private:
  PluginEngine(Device& device, const AllocatorOptions& options,
               const std::shared_ptr<PluginSource>& source)
      : ClassicEngine(device, options, {.source = source, .is_pass_through = true}),
        plugin_source_(source) {}
  const Plugin& plugin() const { return plugin_source_->plugin(); }
  DeviceIndex device_index() const { return device().properties().index; }
  void undo_routing(PoolId pool);

  const std::shared_ptr<PluginSource> plugin_source_;  // shared with the base class and its pools
  Mutex filters_mutex_;                                // never held while the plug-in is called
  // Filters passed to the plug-in, until the end of their routing.
  std::map<PoolId, std::unique_ptr<RouteFilter>> filters_ ASHLAR_GUARDED_BY(filters_mutex_);
};

}  // namespace ashlar
