// SPDX-License-Identifier: Apache-2.0
//
// Calls the base class, then the plug-in's hook. record_stream calls either the base class or the
// hook.
#include "engine/plugin/plugin_engine.h"

#include "device/relaxed_capture.h"

namespace ashlar {
namespace {

int call_filter(void* stream, void* context) {
  const auto& filter = *static_cast<const RouteFilter*>(context);
  return filter(StreamId(reinterpret_cast<uint64_t>(stream))) ? 1 : 0;
}

Status first_failure(Status first, Status second) {
  return first.ok() ? std::move(second) : std::move(first);
}

}  // namespace

Result<std::unique_ptr<PluginEngine>> PluginEngine::create(Device& device,
                                                           const AllocatorOptions& options,
                                                           std::shared_ptr<const Plugin> plugin) {
  Result<std::shared_ptr<PluginSource>> source = PluginSource::create(std::move(plugin), device);
  if (!source.ok()) return source.status();
  std::unique_ptr<PluginEngine> engine(new PluginEngine(device, options, *source));
  if (options.memory_fraction < 1) {
    Status set =
        engine->plugin().set_memory_fraction(options.memory_fraction, engine->device_index());
    if (!set.ok()) return set;
  }
  return engine;
}

// If the plug-in waits for streams itself, it must receive the free immediately; otherwise the
// engine defers the free. The engine caches the memory of private pools, so it always defers the
// frees of their blocks.
Status PluginEngine::record_stream(Block* block, const DeviceStream& use) {
  const bool plugin_waits =
      classic::as_classic(block)->pool->owner() == nullptr && plugin().waits_for_streams();
  if (!plugin_waits) return ClassicEngine::record_stream(block, use);
  return plugin().record_stream(block->address, use.stream);
}

Status PluginEngine::trim(PoolId pool, StackId stack) {
  Status trimmed = ClassicEngine::trim(pool, stack);
  if (trimmed.is(StatusKind::kInvalidArgument)) return trimmed;
  const RelaxedCapture relaxed(device());
  return first_failure(std::move(trimmed),
                       first_failure(plugin().reset(), plugin_source_->take_deferred_error()));
}

Status PluginEngine::set_memory_fraction(double fraction) {
  Status set = ClassicEngine::set_memory_fraction(fraction);
  return set.ok() ? plugin().set_memory_fraction(fraction, device_index()) : set;
}

BlockMemory PluginEngine::block_memory(const Block* block) const {
  BlockMemory memory = ClassicEngine::block_memory(block);
  if (const Result<AddressRange> base = plugin().base_of(memory.range); base.ok()) {
    memory.range = *base;
  }
  return memory;
}

// The engine calls the filter itself; the plug-in gets a copy that lives until end_routing.
Status PluginEngine::begin_routing(PoolId pool, RouteFilter filter) {
  std::map<PoolId, std::unique_ptr<RouteFilter>> staged;
  RouteFilter* const passed = (staged[pool] = std::make_unique<RouteFilter>(filter)).get();
  Status begun = ClassicEngine::begin_routing(pool, std::move(filter));
  if (!begun.ok() || !plugin().has_pools()) return begun;
  {
    MutexLock lock(filters_mutex_);
    filters_.erase(pool);
    filters_.merge(staged);
  }
  Status plugin_begun = plugin().begin_routing(device_index(), pool, {call_filter, passed});
  if (!plugin_begun.ok()) undo_routing(pool);
  return plugin_begun;
}

// Undoes ClassicEngine::begin_routing, which also retains the pool.
void PluginEngine::undo_routing(PoolId pool) {
  (void)ClassicEngine::end_routing(pool).ok();
  (void)ClassicEngine::release_pool(pool).ok();
  MutexLock lock(filters_mutex_);
  filters_.erase(pool);
}

Status PluginEngine::end_routing(PoolId pool) {
  Status ended = ClassicEngine::end_routing(pool);
  if (!ended.ok()) return ended;
  ended = plugin().end_routing(device_index(), pool);
  MutexLock lock(filters_mutex_);
  filters_.erase(pool);
  return ended;
}

Status PluginEngine::release_pool(PoolId pool) {
  Status released = ClassicEngine::release_pool(pool);
  if (!released.ok()) return released;
  const Result<int> left = pool_use_count(pool);
  if (left.ok() && *left > 0) return {};
  return plugin().release_pool(device_index(), pool);
}

}  // namespace ashlar
