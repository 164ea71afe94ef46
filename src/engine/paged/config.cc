// SPDX-License-Identifier: Apache-2.0
//
// Computes the constants from the device and the options.
#include "engine/paged/config.h"

namespace ashlar::paged {
namespace {

size_t usable_granule_bytes(const DeviceProperties& properties) {
  return properties.has_virtual_memory && properties.can_alias ? properties.granularity_bytes : 0;
}

// Returns PagedConfig::max_waste. In replays of the recorded runs, all values from 0.02 to 0.1
// reserve the same amount of memory, and a higher value needs fewer plans
// (docs/internals/experiments/paged_engine.md). `lean` uses the lowest value of that range.
double max_waste_of(PagedPolicy policy) {
  switch (policy) {
    case PagedPolicy::kFast: return 0.5;
    case PagedPolicy::kBalanced: return 0.1;
    case PagedPolicy::kLean: return 0.02;
  }
  return 0;
}

Clock& host_clock() {
  static SteadyClock clock;
  return clock;
}

}  // namespace

PagedConfig::PagedConfig(Device& engine_device, const AllocatorOptions& allocator_options,
                         Clock* injected_clock)
    : device(engine_device),
      clock(injected_clock != nullptr ? *injected_clock : host_clock()),
      options(allocator_options),
      index(engine_device.properties().index),
      capacity_bytes(engine_device.properties().capacity_bytes),
      granule_bytes(usable_granule_bytes(engine_device.properties())),
      sizing(allocator_options.policy, granule_bytes,
             allocator_options.shareable_expandable_segments &&
                 engine_device.properties().can_export_fd),
      max_waste(max_waste_of(allocator_options.policy)) {}

}  // namespace ashlar::paged
