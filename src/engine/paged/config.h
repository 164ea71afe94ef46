// SPDX-License-Identifier: Apache-2.0
//
// The constants of a paged engine: its device, its options, and values derived from both. Immutable
// after construction, so the engine's components read it without a lock.
#pragma once

#include "ashlar/clock.h"
#include "ashlar/device.h"
#include "ashlar/options.h"
#include "engine/paged/pool/extent_sizing.h"

namespace ashlar::paged {

struct PagedConfig {
  // `device` and `clock` outlive the engine. If `clock` is null, the engine uses the system's
  // steady clock.
  PagedConfig(Device& device, const AllocatorOptions& options, Clock* clock);

  Device& device;
  Clock& clock;
  const AllocatorOptions options;
  const DeviceIndex index;
  const size_t capacity_bytes;
  // The unit of the sizes of extents. 0 if the device cannot map one extent at several addresses;
  // all pools then consist of plain segments.
  const size_t granule_bytes;
  const ExtentSizing sizing;
  // The fraction of a request's size that a free range may strand before the planner searches other
  // views.
  const double max_waste;
};

}  // namespace ashlar::paged
