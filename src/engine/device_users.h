// SPDX-License-Identifier: Apache-2.0
//
// Who has a device's memory, for the message that there is none left: the engine knows its own, and
// what fills a device is often somebody else's.
#pragma once

#include <cstddef>
#include <string>

#include "ashlar/device.h"

namespace ashlar {

// Sentences to put behind others, each with a space before it: what this process has, if that is
// more than the `reserved_bytes` which the message tells of already, and what other processes have,
// the largest first. Empty where the device does not tell, or does not know this process by its
// own id, as in some containers. It may take a millisecond: to be called with no lock held.
std::string users_of(Device& device, size_t reserved_bytes);

}  // namespace ashlar
