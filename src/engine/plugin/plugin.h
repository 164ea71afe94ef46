// SPDX-License-Identifier: Apache-2.0
//
// Somebody else's allocator: the functions of include/ashlar/c/plugin.h, loaded from a shared
// object or given as they are. Every call into it is made here, so that what escapes from it as an
// exception is caught here. Constant after construction; thread safe as far as the plug-in is.
#pragma once

#include <memory>
#include <string>

#include "ashlar/c/plugin.h"
#include "ashlar/options.h"
#include "ashlar/status.h"
#include "ashlar/types.h"

namespace ashlar {

// What the functions and the table of hooks were called, for messages.
struct PluginFunctions {
  std::string name = "the plug-in";
  ashlar_plugin_alloc alloc = nullptr;
  ashlar_plugin_free free = nullptr;
  const ashlar_plugin_hooks* hooks = nullptr;  // null: none
};

class Plugin {
 public:
  // The library stays loaded for good: a plug-in may have started threads.
  // kInvalidArgument: the library cannot be loaded, a symbol is missing, or its table is of another
  // version.
  static Result<std::shared_ptr<const Plugin>> load(const PluginOptions& options);
  static Result<std::shared_ptr<const Plugin>> wrap(PluginFunctions functions);

  const std::string& name() const { return functions_.name; }

  // kOutOfMemory: it gave null, also after it was asked to give back what it caches. kDeviceFault,
  // of all of these: it threw.
  Result<DeviceAddress> allocate(size_t bytes, DeviceIndex device, StreamId stream) const;
  Status free(AddressRange range, DeviceIndex device, StreamId stream) const;

  // --- hooks: without one, nothing happens
  // ---------------------------------------------------------
  Status begin(DeviceIndex device) const;
  Status reset() const;
  Status set_memory_fraction(double fraction, DeviceIndex device) const;
  // What the memory is part of; without a hook, or without an answer, the range itself.
  Result<AddressRange> base_of(AddressRange range) const;
  bool waits_for_streams() const { return hooks_.record_stream != nullptr; }
  Status record_stream(DeviceAddress address, StreamId stream) const;
  bool has_pools() const { return hooks_.begin_allocate_to_pool != nullptr; }
  // The context stays until the end of routing.
  struct Route {
    ashlar_plugin_filter filter = nullptr;
    void* context = nullptr;
  };
  Status begin_routing(DeviceIndex device, PoolId pool, const Route& route) const;
  Status end_routing(DeviceIndex device, PoolId pool) const;
  Status release_pool(DeviceIndex device, PoolId pool) const;

 private:
  Plugin(PluginFunctions functions, const ashlar_plugin_hooks& hooks)
      : functions_(std::move(functions)), hooks_(hooks) {}
  template <typename Call>
  Status call(const char* what, const Call& function) const;

  const PluginFunctions functions_;
  const ashlar_plugin_hooks hooks_;  // a copy, as far as its version goes; the rest is null
};

}  // namespace ashlar
