// SPDX-License-Identifier: Apache-2.0
//
// The engines' contract suite on memory of somebody else: as a whole engine, and as the source of
// the classic one's segments. The plug-in takes its memory from the simulated device, by the calls
// that a user's would make.
#include <mutex>
#include <utility>

#include "engine/plugin/plugin_engine.h"
#include "engine_contract.h"

namespace ashlar::contract {
namespace {

// A user's allocator in small: what is freed goes back to the device once its stream is idle, as a
// driver's own stream-ordered free would have it. Its functions know no Device, and find it here.
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
UsersAllocator users[2];  // by the number of the device, as the plug-in is told

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

// Its end is the user's, who then gives back the rest; on a lost device there is none.
std::shared_ptr<const Plugin> plugin_on(Device& device) {
  UsersAllocator& its = users[device.properties().index.value()];
  its.device = &device;
  auto plugin = must(Plugin::wrap({.alloc = plugin_alloc, .free = plugin_free, .hooks = &kHooks}));
  return {plugin.get(), [plugin, &its](const Plugin*) {
            its.sweep(true);
            its.freed.clear();
          }};
}

EngineUnderTest whole_engine() {
  return {.name = "Plugin",
          .make = [](Device& device, const AllocatorOptions& options) -> std::unique_ptr<Engine> {
            return must(PluginEngine::create(device, options, plugin_on(device)));
          },
          .caches = false,
          .frees_itself = false};
}

EngineUnderTest source_of_segments() {
  return {.name = "ClassicOnPlugin",
          .make = [](Device& device, const AllocatorOptions& options) -> std::unique_ptr<Engine> {
            auto source = must(PluginSource::create(plugin_on(device), device));
            return std::make_unique<classic::ClassicEngine>(
                device, options, classic::MemorySource{.source = std::move(source)});
          },
          .frees_itself = false};
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
