// SPDX-License-Identifier: Apache-2.0
//
// A plug-in as the source of an engine's segments, or of a pool's. It remembers what it was asked
// for, since the plug-in's free is told. Thread safe; the plug-in is called with no lock held.
#pragma once

#include <memory>
#include <unordered_map>

#include "ashlar/device.h"
#include "ashlar/pool.h"
#include "base/mutex.h"
#include "engine/plugin/plugin.h"

namespace ashlar {

class PluginSource final : public SegmentSource {
 public:
  // Tells the plug-in that it begins.
  static Result<std::shared_ptr<PluginSource>> create(std::shared_ptr<const Plugin> plugin,
                                                      const Device& device);

  const Plugin& plugin() const { return *plugin_; }

  // kDeviceFault: the plug-in threw, here or in an earlier free; or gave memory that is in use.
  Result<DeviceAddress> allocate(size_t bytes, StreamId stream) override;
  void free(DeviceAddress address, size_t bytes) override;
  // A failure of a free that nobody heard of yet.
  Status take_late_error();

 private:
  struct Given {
    size_t bytes = 0;
    StreamId stream{};
  };
  PluginSource(std::shared_ptr<const Plugin> plugin, DeviceIndex device)
      : plugin_(std::move(plugin)), device_(device) {}

  const std::shared_ptr<const Plugin> plugin_;  // shared with other sources, and the caller
  const DeviceIndex device_;
  Mutex mutex_;
  std::unordered_map<uint64_t, Given> given_ ASHLAR_GUARDED_BY(mutex_);
  Status deferred_error_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
