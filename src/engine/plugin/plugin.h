// SPDX-License-Identifier: Apache-2.0
//
// A user's allocator: the functions of include/ashlar/c/plugin.h, loaded from a shared object or
// passed directly. All calls into the plug-in are made here, and exceptions that escape from it are
// caught here. Immutable; as thread safe as the plug-in.
#pragma once

#include <memory>
#include <string>

#include "ashlar/c/plugin.h"
#include "ashlar/options.h"
#include "ashlar/status.h"
#include "ashlar/types.h"

namespace ashlar {

// The functions that make up a plug-in. `name` identifies the plug-in in messages.
struct PluginFunctions {
  std::string name = "the plug-in";
  ashlar_plugin_alloc alloc = nullptr;
  ashlar_plugin_free free = nullptr;
  const ashlar_plugin_hooks* hooks = nullptr;  // null if the plug-in has no hooks
};

class Plugin {
 public:
  // Loads a shared object, which is never unloaded, because the plug-in may have started threads.
  // kInvalidArgument: the library cannot be loaded, a symbol is missing, or the hook table has
  // another version.
  static Result<std::shared_ptr<const Plugin>> load(const PluginOptions& options);
  // Uses functions that the caller provides. kInvalidArgument: `alloc` or `free` is null, or the
  // hook table has another version.
  static Result<std::shared_ptr<const Plugin>> wrap(PluginFunctions functions);

  const std::string& name() const { return functions_.name; }

  // The functions below that call the plug-in return kDeviceFault if the plug-in throws.

  // kOutOfMemory: the plug-in returned null, and again after its reset hook if it has one.
  Result<DeviceAddress> allocate(size_t bytes, DeviceIndex device, StreamId stream) const;
  Status free(AddressRange range, DeviceIndex device, StreamId stream) const;

  // Hooks. If the plug-in lacks the hook, the function does nothing.
  Status init(DeviceIndex device) const;
  Status reset() const;
  Status set_memory_fraction(double fraction, DeviceIndex device) const;
  // Returns the allocation that contains `range`, or `range` itself if there is no base_alloc hook
  // or its result does not contain `range`.
  Result<AddressRange> base_of(AddressRange range) const;
  // Whether the plug-in itself waits for the streams that `record_stream` reports.
  bool waits_for_streams() const { return hooks_.record_stream != nullptr; }
  Status record_stream(DeviceAddress address, StreamId stream) const;
  bool has_pools() const { return hooks_.begin_allocate_to_pool != nullptr; }
  // A stream filter. `context` must stay valid until end_routing.
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
  const ashlar_plugin_hooks hooks_;  // hooks beyond the plug-in's struct_size are null
};

}  // namespace ashlar
