// SPDX-License-Identifier: Apache-2.0
//
// The devices that a vendor's driver shows, as one set.
#pragma once

#include <memory>

#include "ashlar/devices.h"
#include "device/gpu/driver.h"

namespace ashlar::gpu {

// kUnsupported: the driver does not start, or shows no sense; the message has its reason.
Result<std::unique_ptr<DeviceSet>> open_devices(std::unique_ptr<Driver> driver);

}  // namespace ashlar::gpu
