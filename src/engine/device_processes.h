// SPDX-License-Identifier: Apache-2.0
//
// Lists the processes that use a device's memory, for out-of-memory messages: the memory is often
// taken by another process.
#pragma once

#include <cstddef>
#include <string>

#include "ashlar/device.h"

namespace ashlar {

// Returns sentences to append to a message, each with a leading space: the memory that this process
// uses, if it exceeds `reserved_bytes`, and the memory that other processes use, largest first.
// Names at most four other processes and adds up the remaining ones. Empty if the device does not
// list processes, or does not list this process under its own pid, as in some containers. Takes up
// to a millisecond; call it with no lock held.
std::string describe_device_processes(Device& device, size_t reserved_bytes);

}  // namespace ashlar
