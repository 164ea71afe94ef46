// SPDX-License-Identifier: Apache-2.0
//
// The engine contract on a plug-in allocator: as a complete engine, and as the segment source of
// the classic engine. The plug-in allocates from the simulated device with the calls a user's
// plug-in makes.
#include <mutex>
#include <utility>

#include "engine/plugin/plugin_engine.h"
#include "engine_contract.h"

namespace ashlar::contract {
namespace {

// A minimal user allocator. Frees memory once its stream is idle, like a stream-ordered free. Its C
// functions find the device here.
struct UsersAllocator {
  struct Freed {
    DeviceAddress address{};
    StreamId stream{};
  };

  void sweep(bool waits) {
    std::vector<Freed> left;
    for (const Freed& each : std::exchange(freed, {})) {
      if (waits) (void)device->synchronize_stream(each.stream).ok();
      const Result<bool> idle = device->is_idle(each.stream);
      const bool is_over = !idle.ok() || *idle;
      if (!is_over || !device->free(each.address).ok()) left.push_back(each);
    }
    freed.insert(freed.end(), left.begin(), left.end());
  }

  std::mutex mutex;
  Device* device = nullptr;
  std::vector<Freed> freed;
};
UsersAllocator users[2];  // indexed by device

void* plugin_alloc(size_t bytes, int device, void*) {
  UsersAllocator& its = users[device];
  const std::lock_guard lock(its.mutex);
  its.sweep(false);
  Result<DeviceAddress> at = its.device->allocate(bytes);
  if (!at.ok() && at.status().is_out_of_memory()) {
    its.sweep(true);
    at = its.device->allocate(bytes);
  }
  return at.ok() ? reinterpret_cast<void*>(at->value()) : nullptr;
}

void plugin_free(void* memory, size_t, int device, void* stream) {
  UsersAllocator& its = users[device];
  const std::lock_guard lock(its.mutex);
  its.freed.push_back({DeviceAddress(reinterpret_cast<uint64_t>(memory)),
                       StreamId(reinterpret_cast<uint64_t>(stream))});
  its.sweep(false);
}

void plugin_reset() {
  for (UsersAllocator& its : users) {
    const std::lock_guard lock(its.mutex);
    its.sweep(true);
  }
}

const ashlar_plugin_hooks kHooks = [] {
  ashlar_plugin_hooks hooks{};
  hooks.abi_version = ASHLAR_PLUGIN_ABI_VERSION;
  hooks.struct_size = sizeof hooks;
  hooks.reset = plugin_reset;
  return hooks;
}();

// The user releases remaining memory at the end; impossible on a lost device.
std::shared_ptr<const Plugin> plugin_on(Device& device) {
  UsersAllocator& its = users[device.properties().index.value()];
  its.device = &device;
  auto plugin =
      require_ok(Plugin::wrap({.alloc = plugin_alloc, .free = plugin_free, .hooks = &kHooks}));
  return {plugin.get(), [plugin, &its](const Plugin*) {
            its.sweep(true);
            its.freed.clear();
          }};
}

EngineUnderTest whole_engine() {
  return {.name = "Plugin",
          .make = [](Device& device, const AllocatorOptions& options) -> std::unique_ptr<Engine> {
            return require_ok(PluginEngine::create(device, options, plugin_on(device)));
          },
          .caches = false,
          .reports_free_errors = false};
}

EngineUnderTest source_of_segments() {
  return {.name = "ClassicOnPlugin",
          .make = [](Device& device, const AllocatorOptions& options) -> std::unique_ptr<Engine> {
            auto source = require_ok(PluginSource::create(plugin_on(device), device));
            return std::make_unique<classic::ClassicEngine>(
                device, options, classic::SourceConfig{.source = std::move(source)});
          },
          .reports_free_errors = false};
}

auto plugin_engines() { return testing::Values(whole_engine(), source_of_segments()); }

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
