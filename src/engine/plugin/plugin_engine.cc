// SPDX-License-Identifier: Apache-2.0
//
// What the engine below does, and then what the plug-in is told.
#include "engine/plugin/plugin_engine.h"

#include "device/relaxed_capture.h"

namespace ashlar {
namespace {

int ask_filter(void* stream, void* context) {
  const auto& filter = *static_cast<const RouteFilter*>(context);
  return filter(StreamId(reinterpret_cast<uint64_t>(stream))) ? 1 : 0;
}

// Of two outcomes, the first that is a failure.
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
    Status told = engine->plugin().set_memory_fraction(options.memory_fraction, engine->index());
    if (!told.ok()) return told;
  }
  return engine;
}

// A plug-in that waits for streams by itself must hear of the free at once; else the block waits
// here. Memory of pools is cached here, so that their blocks always wait here.
Status PluginEngine::record_stream(Block* block, const StreamUse& use) {
  const bool is_plugins =
      classic::as_classic(block)->pool->owner() == nullptr && plugin().waits_for_streams();
  if (!is_plugins) return ClassicEngine::record_stream(block, use);
  return plugin().record_stream(block->address, use.stream);
}

Status PluginEngine::trim(PoolId pool, StackId stack) {
  Status trimmed = ClassicEngine::trim(pool, stack);
  if (trimmed.is(StatusKind::kInvalidArgument)) return trimmed;
  const RelaxedCapture relaxed(device());
  return first_failure(std::move(trimmed),
                       first_failure(plugin().reset(), plugin_source_->take_late_error()));
}

Status PluginEngine::set_memory_fraction(double fraction) {
  Status set = ClassicEngine::set_memory_fraction(fraction);
  return set.ok() ? plugin().set_memory_fraction(fraction, index()) : set;
}

BlockMemory PluginEngine::block_memory(const Block* block) const {
  BlockMemory memory = ClassicEngine::block_memory(block);
  if (const Result<AddressRange> base = plugin().base_of(memory.range); base.ok()) {
    memory.range = *base;
  }
  return memory;
}

// The engine asks the filter itself; the plug-in gets a copy that stays until the end.
Status PluginEngine::begin_routing(PoolId pool, RouteFilter filter) {
  auto copy = std::make_unique<RouteFilter>(filter);
  Status begun = ClassicEngine::begin_routing(pool, std::move(filter));
  if (!begun.ok() || !plugin().has_pools()) return begun;
  RouteFilter* told = copy.get();
  {
    MutexLock lock(filters_mutex_);
    filters_[pool] = std::move(copy);
  }
  Status begun_there = plugin().begin_routing(index(), pool, {ask_filter, told});
  if (!begun_there.ok()) stop_routing(pool);
  return begun_there;
}

// As if nobody had asked: what begins a route holds its pool, too.
void PluginEngine::stop_routing(PoolId pool) {
  (void)ClassicEngine::end_routing(pool).ok();
  (void)ClassicEngine::release_pool(pool).ok();
  MutexLock lock(filters_mutex_);
  filters_.erase(pool);
}

Status PluginEngine::end_routing(PoolId pool) {
  Status ended = ClassicEngine::end_routing(pool);
  if (!ended.ok()) return ended;
  ended = plugin().end_routing(index(), pool);
  MutexLock lock(filters_mutex_);
  filters_.erase(pool);
  return ended;
}

Status PluginEngine::release_pool(PoolId pool) {
  Status released = ClassicEngine::release_pool(pool);
  if (!released.ok()) return released;
  const Result<int> left = pool_use_count(pool);
  if (left.ok() && *left > 0) return {};
  return plugin().release_pool(index(), pool);
}

}  // namespace ashlar
