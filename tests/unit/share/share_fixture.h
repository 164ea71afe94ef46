// SPDX-License-Identifier: Apache-2.0
//
// Two simulated machines in one process, which represent two processes: the exporter's allocator
// shares memory, and the importer's allocator opens it. The memory is real, so that contents can be
// compared.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "ashlar/allocator.h"
#include "ashlar/sim.h"
#include "base/units.h"
#include "contract/waiting.h"
#include "unit/share/share_sources.h"

namespace ashlar {

using contract::eventually;

// A machine with an allocator.
class Side {
 public:
  explicit Side(ShareSource source = ShareSource::kPlain) {
    sim::Options machine_options;
    machine_options.device_count = 2;
    machine_options.capacity_bytes = kGiB;
    machine = *sim::Machine::try_create(machine_options);
    allocator = std::make_unique<Allocator>(device(), options_of(source));
  }

  Device& device(uint64_t index = 0) const { return machine->device(DeviceIndex(index)); }
  size_t used_bytes() const {
    const DeviceMemoryStats use = *device().memory_stats();
    return use.total_bytes - use.free_bytes;
  }
  int64_t active_bytes() const { return allocator->stats().active_bytes.all.current; }
  uint64_t calls(DeviceCall call) const { return machine->costs(DeviceIndex(0)).count_of(call); }

  void write(DeviceAddress at, uint32_t value) const {
    EXPECT_TRUE(device().copy_to_device(at, &value, sizeof(value), kDefaultStream).ok());
    EXPECT_TRUE(device().synchronize_stream(kDefaultStream).ok());
  }
  uint32_t read(DeviceAddress at) const {
    uint32_t value = 0;
    const Status copied = device().copy_to_host(&value, at, sizeof(value), kDefaultStream);
    EXPECT_TRUE(copied.ok()) << copied.to_string();
    EXPECT_TRUE(device().synchronize_stream(kDefaultStream).ok());
    return value;
  }

  std::unique_ptr<sim::Machine> machine;
  std::unique_ptr<Allocator> allocator;
};

// Returns the source for the importer's allocator: the exporter's engine without the options that
// only exporters need.
inline ShareSource importer_source_for(ShareSource exporter) {
  return exporter == ShareSource::kPaged ? ShareSource::kPaged : ShareSource::kPlain;
}

}  // namespace ashlar
