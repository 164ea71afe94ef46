// SPDX-License-Identifier: Apache-2.0
//
// What was given is forgotten before the plug-in hears of the free: it may hand it out again while
// we are still on our way back.
#include "engine/plugin/plugin_source.h"

#include <utility>

#include "base/text.h"

namespace ashlar {

Result<std::shared_ptr<PluginSource>> PluginSource::create(std::shared_ptr<const Plugin> plugin,
                                                           const Device& device) {
  const DeviceIndex index = device.properties().index;
  if (Status begun = plugin->begin(index); !begun.ok()) return begun;
  return std::shared_ptr<PluginSource>(new PluginSource(std::move(plugin), index));
}

Result<DeviceAddress> PluginSource::allocate(size_t bytes, StreamId stream) {
  if (Status late = take_late_error(); !late.ok()) return late;
  const Result<DeviceAddress> at = plugin_->allocate(bytes, device_, stream);
  if (!at.ok()) return at;
  MutexLock lock(mutex_);
  const bool is_new = given_.emplace(at->value(), Given{bytes, stream}).second;
  if (is_new) return at;
  return Status::device_fault(
      "alloc", 0, text("plug-in ", plugin_->name(), " gave ", *at, ", which is in use"));
}

void PluginSource::free(DeviceAddress address, size_t bytes) {
  Given given;
  {
    MutexLock lock(mutex_);
    const auto found = given_.find(address.value());
    if (found != given_.end()) {
      given = found->second;
      given_.erase(found);
    }
  }
  if (given.bytes == 0) given.bytes = bytes;
  Status freed = plugin_->free({address, given.bytes}, device_, given.stream);
  if (freed.ok()) return;
  MutexLock lock(mutex_);
  if (deferred_error_.ok()) deferred_error_ = std::move(freed);
}

Status PluginSource::take_late_error() {
  MutexLock lock(mutex_);
  return std::exchange(deferred_error_, {});
}

}  // namespace ashlar
