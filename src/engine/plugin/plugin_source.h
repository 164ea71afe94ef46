// SPDX-License-Identifier: Apache-2.0
//
// A plug-in as the source of segments for an engine or a pool. Remembers the size and the stream of
// each allocation, because the plug-in's free function expects them. Thread safe; calls the plug-in
// with no lock held.
#pragma once

#include <map>
#include <memory>

#include "ashlar/device.h"
#include "ashlar/pool.h"
#include "base/mutex.h"
#include "engine/plugin/plugin.h"

namespace ashlar {

class PluginSource final : public SegmentSource {
 public:
  // Calls the plug-in's init hook.
  static Result<std::shared_ptr<PluginSource>> create(std::shared_ptr<const Plugin> plugin,
                                                      const Device& device);

  const Plugin& plugin() const { return *plugin_; }

  // kOutOfMemory: as in Plugin::allocate. kDeviceFault: the plug-in threw, now or in an earlier
  // free, or returned memory that is already in use.
  Result<DeviceAddress> allocate(size_t bytes, StreamId stream) override;
  void free(DeviceAddress address, size_t bytes) override;
  // Returns and clears the first error of `free` that has not been reported yet.
  Status take_deferred_error();

 private:
  struct Allocation {
    size_t bytes = 0;
    StreamId stream{};
  };
  PluginSource(std::shared_ptr<const Plugin> plugin, DeviceIndex device)
      : plugin_(std::move(plugin)), device_(device) {}

  const std::shared_ptr<const Plugin> plugin_;  // shared with other sources, and the caller
  const DeviceIndex device_;
  Mutex mutex_;
  std::map<uint64_t, Allocation> live_ ASHLAR_GUARDED_BY(mutex_);  // keyed by address
  Status deferred_error_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
