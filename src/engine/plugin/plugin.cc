// SPDX-License-Identifier: Apache-2.0
//
// Loads the shared object, checks the version of its hooks, and converts exceptions to errors.
#include "engine/plugin/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <exception>

#include "base/text.h"

namespace ashlar {
namespace {

std::string loader_reason() {
  const char* reason = dlerror();
  return reason == nullptr ? "no reason given" : reason;
}

// A loaded shared object, for symbol lookup.
struct Library {
  const std::string& name;
  void* handle;

  Result<void*> required(const std::string& symbol) const {
    void* found = dlsym(handle, symbol.c_str());
    if (found != nullptr) return found;
    return Status::invalid_argument(
        text("plug-in ", name, " has no symbol ", symbol, ": ", loader_reason(),
             " (expected a function with C linkage and default visibility)"));
  }
};

template <typename Function>
Function as_function(void* symbol) {
  return reinterpret_cast<Function>(symbol);
}

int device_number(DeviceIndex device) { return static_cast<int>(device.value()); }
void* to_pointer(DeviceAddress address) { return reinterpret_cast<void*>(address.value()); }

// Copies the fields of the hook table that both the plug-in and this library have.
Result<ashlar_plugin_hooks> copy_hooks(const ashlar_plugin_hooks* given, const std::string& name) {
  ashlar_plugin_hooks hooks{};
  if (given == nullptr) return hooks;
  if (given->abi_version != ASHLAR_PLUGIN_ABI_VERSION) {
    return Status::invalid_argument(
        text("the hooks of plug-in ", name, " are of version ", given->abi_version, " (expected ",
             ASHLAR_PLUGIN_ABI_VERSION, "): compile it with the plugin.h of this version"));
  }
  constexpr size_t kMinBytes = 2 * sizeof(uint32_t);
  if (given->struct_size < kMinBytes) {
    return Status::invalid_argument(text("the hooks of plug-in ", name, " say that they have ",
                                         given->struct_size, " B (expected sizeof the struct)"));
  }
  std::memcpy(&hooks, given, std::min<size_t>(given->struct_size, sizeof hooks));
  return hooks;
}

}  // namespace

Result<std::shared_ptr<const Plugin>> Plugin::load(const PluginOptions& options) {
  // RTLD_NOW reports unresolved symbols here rather than in the middle of a run.
  void* handle = dlopen(options.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return Status::invalid_argument(
        text("plug-in ", options.library, " cannot be loaded: ", loader_reason()));
  }
  const Library library{options.library, handle};
  const Result<void*> alloc = library.required(options.alloc_symbol);
  if (!alloc.ok()) return alloc.status();
  const Result<void*> free = library.required(options.free_symbol);
  if (!free.ok()) return free.status();
  const bool requires_hooks = !options.hooks_symbol.empty();
  Result<void*> hooks = requires_hooks ? library.required(options.hooks_symbol)
                                       : dlsym(handle, ASHLAR_PLUGIN_HOOKS_SYMBOL);
  if (!hooks.ok()) return hooks.status();
  return wrap({.name = options.library,
               .alloc = as_function<ashlar_plugin_alloc>(*alloc),
               .free = as_function<ashlar_plugin_free>(*free),
               .hooks = static_cast<const ashlar_plugin_hooks*>(*hooks)});
}

Result<std::shared_ptr<const Plugin>> Plugin::wrap(PluginFunctions functions) {
  if (functions.alloc == nullptr || functions.free == nullptr) {
    return Status::invalid_argument(text(functions.name, " needs both functions, alloc and free"));
  }
  const Result<ashlar_plugin_hooks> hooks = copy_hooks(functions.hooks, functions.name);
  if (!hooks.ok()) return hooks.status();
  return std::shared_ptr<const Plugin>(new Plugin(std::move(functions), *hooks));
}

template <typename Call>
Status Plugin::call(const char* what, const Call& function) const {
  try {
    function();
    return {};
  } catch (const std::exception& thrown) {
    return Status::device_fault(what, 0,
                                text("plug-in ", name(), " threw in ", what, ": ", thrown.what()));
  } catch (...) {
    return Status::device_fault(what, 0,
                                text("plug-in ", name(), " threw an exception in ", what,
                                     " that is not derived from std::exception"));
  }
}

Result<DeviceAddress> Plugin::allocate(size_t bytes, DeviceIndex device, StreamId stream) const {
  void* memory = nullptr;
  const auto allocate = [&] {
    memory = functions_.alloc(bytes, device_number(device), to_stream_handle(stream));
  };
  if (Status called = call("alloc", allocate); !called.ok()) return called;
  if (memory == nullptr && hooks_.reset != nullptr) {
    if (Status emptied = reset(); !emptied.ok()) return emptied;
    if (Status called = call("alloc", allocate); !called.ok()) return called;
  }
  if (memory == nullptr) {
    return Status::out_of_memory(text("plug-in ", name(), " could not allocate ", bytes, " B"));
  }
  return DeviceAddress(reinterpret_cast<uint64_t>(memory));
}

Status Plugin::free(AddressRange range, DeviceIndex device, StreamId stream) const {
  return call("free", [&] {
    functions_.free(to_pointer(range.begin), range.bytes, device_number(device),
                    to_stream_handle(stream));
  });
}

Status Plugin::init(DeviceIndex device) const {
  if (hooks_.init == nullptr) return {};
  return call("init", [&] { hooks_.init(device_number(device)); });
}

Status Plugin::reset() const {
  if (hooks_.reset == nullptr) return {};
  return call("reset", [&] { hooks_.reset(); });
}

Status Plugin::set_memory_fraction(double fraction, DeviceIndex device) const {
  if (hooks_.memory_fraction == nullptr) return {};
  return call("memory_fraction", [&] { hooks_.memory_fraction(fraction, device_number(device)); });
}

Result<AddressRange> Plugin::base_of(AddressRange range) const {
  if (hooks_.base_alloc == nullptr) return range;
  size_t bytes = 0;
  void* base = nullptr;
  const Status called =
      call("base_alloc", [&] { base = hooks_.base_alloc(to_pointer(range.begin), &bytes); });
  if (!called.ok()) return called;
  const AddressRange answer{DeviceAddress(reinterpret_cast<uint64_t>(base)), bytes};
  return answer.contains(range) ? answer : range;
}

Status Plugin::record_stream(DeviceAddress address, StreamId stream) const {
  if (hooks_.record_stream == nullptr) return {};
  return call("record_stream",
              [&] { hooks_.record_stream(to_pointer(address), to_stream_handle(stream)); });
}

Status Plugin::begin_routing(DeviceIndex device, PoolId pool, const Route& route) const {
  if (hooks_.begin_allocate_to_pool == nullptr) return {};
  return call("begin_allocate_to_pool", [&] {
    hooks_.begin_allocate_to_pool(device_number(device), pool.capture, pool.user, route.filter,
                                  route.context);
  });
}

Status Plugin::end_routing(DeviceIndex device, PoolId pool) const {
  if (hooks_.end_allocate_to_pool == nullptr) return {};
  return call("end_allocate_to_pool",
              [&] { hooks_.end_allocate_to_pool(device_number(device), pool.capture, pool.user); });
}

Status Plugin::release_pool(DeviceIndex device, PoolId pool) const {
  if (hooks_.release_pool == nullptr) return {};
  return call("release_pool",
              [&] { hooks_.release_pool(device_number(device), pool.capture, pool.user); });
}

}  // namespace ashlar
