// SPDX-License-Identifier: Apache-2.0
//
// Determines which of the features in `Capabilities` a device supports by trying them. Driver
// attributes do not suffice. Drivers advertise fabric handles even if the required IMEX service is
// not running, and file descriptors even on virtual machines that refuse to export them. HIP has no
// attribute for mapping an extent twice.
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

// Allocates at most two granules of memory at a time, and releases everything that it allocates.
// Takes a few milliseconds. REQUIRES: the thread has entered the device's context, and the thread's
// capture mode is kRelaxed.
Capabilities probe_capabilities(Driver& driver, int device, const DeviceInfo& info);

}  // namespace ashlar::gpu
