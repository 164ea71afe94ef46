// SPDX-License-Identifier: Apache-2.0
//
// Passes requests to the plug-in. The record of an allocation is removed before the plug-in frees
// the memory, because another thread may receive the same address before the call returns.
#include "engine/plugin/plugin_source.h"

#include <utility>

#include "base/text.h"

namespace ashlar {

Result<std::shared_ptr<PluginSource>> PluginSource::create(std::shared_ptr<const Plugin> plugin,
                                                           const Device& device) {
  const DeviceIndex index = device.properties().index;
  if (Status initialized = plugin->init(index); !initialized.ok()) return initialized;
  return std::shared_ptr<PluginSource>(new PluginSource(std::move(plugin), index));
}

Result<DeviceAddress> PluginSource::allocate(size_t bytes, StreamId stream) {
  if (Status deferred = take_deferred_error(); !deferred.ok()) return deferred;
  // The record is allocated before the plug-in is called, because the plug-in might fail to undo
  // its allocation.
  std::map<uint64_t, Allocation> staged = {{0, {bytes, stream}}};
  const Result<DeviceAddress> address = plugin_->allocate(bytes, device_, stream);
  if (!address.ok()) return address;
  auto allocation = staged.extract(staged.begin());
  allocation.key() = address->value();
  MutexLock lock(mutex_);
  if (live_.insert(std::move(allocation)).inserted) return address;
  return Status::device_fault(
      "alloc", 0, text("plug-in ", plugin_->name(), " returned ", *address, ", which is in use"));
}

void PluginSource::free(DeviceAddress address, size_t bytes) {
  Allocation allocation;
  {
    MutexLock lock(mutex_);
    const auto found = live_.find(address.value());
    if (found != live_.end()) {
      allocation = found->second;
      live_.erase(found);
    }
  }
  if (allocation.bytes == 0) allocation.bytes = bytes;
  Status freed = plugin_->free({address, allocation.bytes}, device_, allocation.stream);
  if (freed.ok()) return;
  MutexLock lock(mutex_);
  if (deferred_error_.ok()) deferred_error_ = std::move(freed);
}

Status PluginSource::take_deferred_error() {
  MutexLock lock(mutex_);
  return std::exchange(deferred_error_, {});
}

}  // namespace ashlar
