// SPDX-License-Identifier: Apache-2.0
//
// Instantiates the engine contract for a plug-in allocator: as a complete engine, and as the
// segment source of the classic engine. The plug-in allocates from the simulated device, as a
// user's plug-in allocates from a driver.
#include <mutex>
#include <utility>

#include "engine/plugin/plugin_engine.h"
#include "engine_contract.h"

namespace ashlar::contract {
namespace {

// A user's minimal allocator for one device, with the state that the plug-in's C functions need.
// A free takes effect in the first later call that finds the stream idle, so that it is ordered
// after the stream's work.
struct UserAllocator {
  struct Freed {
    DeviceAddress address{};
    StreamId stream{};
  };

  void free_idle(bool waits) {
    std::vector<Freed> remaining;
    for (const Freed& each : std::exchange(freed, {})) {
      if (waits) (void)device->synchronize_stream(each.stream).ok();
      const Result<bool> idle = device->is_idle(each.stream);
      const bool is_over = !idle.ok() || *idle;
      if (!is_over || !device->free(each.address).ok()) remaining.push_back(each);
    }
    freed.insert(freed.end(), remaining.begin(), remaining.end());
  }

  std::mutex mutex;
  Device* device = nullptr;
  std::vector<Freed> freed;
};
UserAllocator user_allocators[2];  // indexed by device

void* plugin_alloc(size_t bytes, int device, void*) {
  UserAllocator& allocator = user_allocators[device];
  const std::lock_guard lock(allocator.mutex);
  allocator.free_idle(false);
  Result<DeviceAddress> at = allocator.device->allocate(bytes);
  if (!at.ok() && at.status().is_out_of_memory()) {
    allocator.free_idle(true);
    at = allocator.device->allocate(bytes);
  }
  return at.ok() ? reinterpret_cast<void*>(at->value()) : nullptr;
}

void plugin_free(void* memory, size_t, int device, void* stream) {
  UserAllocator& allocator = user_allocators[device];
  const std::lock_guard lock(allocator.mutex);
  allocator.freed.push_back({DeviceAddress(reinterpret_cast<uint64_t>(memory)),
                             StreamId(reinterpret_cast<uint64_t>(stream))});
  allocator.free_idle(false);
}

void plugin_reset() {
  for (UserAllocator& allocator : user_allocators) {
    const std::lock_guard lock(allocator.mutex);
    allocator.free_idle(true);
  }
}

const ashlar_plugin_hooks kHooks = [] {
  ashlar_plugin_hooks hooks{};
  hooks.abi_version = ASHLAR_PLUGIN_ABI_VERSION;
  hooks.struct_size = sizeof hooks;
  hooks.reset = plugin_reset;
  return hooks;
}();

// Returns a plug-in that allocates from `device`. Destroying it frees the remaining memory; on a
// lost device, where frees fail, it only drops the list of that memory.
std::shared_ptr<const Plugin> plugin_on(Device& device) {
  UserAllocator& allocator = user_allocators[device.properties().index.value()];
  allocator.device = &device;
  auto plugin =
      require_ok(Plugin::wrap({.alloc = plugin_alloc, .free = plugin_free, .hooks = &kHooks}));
  return {plugin.get(), [plugin, &allocator](const Plugin*) {
            allocator.free_idle(true);
            allocator.freed.clear();
          }};
}

EngineUnderTest plugin_engine() {
  return {.name = "Plugin",
          .make = [](Device& device, const AllocatorOptions& options) -> std::unique_ptr<Engine> {
            return require_ok(PluginEngine::create(device, options, plugin_on(device)));
          },
          .caches = false,
          .reports_free_errors = false};
}

EngineUnderTest classic_engine_on_plugin() {
  return {.name = "ClassicOnPlugin",
          .make = [](Device& device, const AllocatorOptions& options) -> std::unique_ptr<Engine> {
            auto source = require_ok(PluginSource::create(plugin_on(device), device));
            return std::make_unique<classic::ClassicEngine>(
                device, options, classic::SourceConfig{.source = std::move(source)});
          },
          .reports_free_errors = false};
}

auto plugin_engines() { return testing::Values(plugin_engine(), classic_engine_on_plugin()); }

}  // namespace

INSTANTIATE_TEST_SUITE_P(Plugin, EngineMemoryContract, plugin_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Plugin, EngineStreamsContract, plugin_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Plugin, EnginePoolsContract, plugin_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Plugin, EngineCaptureContract, plugin_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Plugin, EngineLimitsContract, plugin_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Plugin, EngineHooksContract, plugin_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Plugin, EngineFailuresContract, plugin_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Plugin, EngineConcurrencyContract, plugin_engines(), engine_name);

}  // namespace ashlar::contract
