// SPDX-License-Identifier: Apache-2.0
//
// Determines what a device can do by trying each feature once. Driver attributes do not suffice:
// drivers advertise fabric handles even if the service that they need does not run, and file
// descriptors that some virtual machines refuse. HIP has no attribute for mapping an extent twice.
#pragma once

#include <string>

#include "device/gpu/driver.h"

namespace ashlar::gpu {

struct Capabilities {
  bool has_virtual_memory = false;
  bool can_alias = false;
  std::string alias_probe;  // see DeviceProperties::alias_probe
  bool can_export_fd = false;
  bool can_export_fabric = false;
  bool can_share_allocations = false;
};

// Allocates at most three granules at a time and always releases them. Takes some milliseconds.
// REQUIRES: the thread is in the device's context, and its capture mode is kRelaxed.
Capabilities probe_capabilities(Driver& driver, int device, const DeviceInfo& info);

}  // namespace ashlar::gpu
