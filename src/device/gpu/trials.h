// SPDX-License-Identifier: Apache-2.0
//
// What a device can do, found out by doing it once: drivers claim more than they keep (fabric
// handles without the service behind them, file descriptors in some virtual machines), and HIP
// says nothing of mapping one extent twice.
#pragma once

#include "device/gpu/driver.h"

namespace ashlar::gpu {

struct Abilities {
  bool has_virtual_memory = false;
  bool can_alias = false;
  bool can_export_fd = false;
  bool can_export_fabric = false;
  bool can_share_allocations = false;
};

// Takes and gives back a granule at a time. REQUIRES: the device is entered, and the thread may
// make calls that a capture forbids.
Abilities try_out(Driver& driver, int device, const DeviceFacts& facts);

}  // namespace ashlar::gpu
