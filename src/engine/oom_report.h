// SPDX-License-Identifier: Apache-2.0
//
// The sentences of out-of-memory messages that all engines share.
#pragma once

#include <cstddef>
#include <string>

#include "ashlar/device.h"
#include "ashlar/stats.h"

namespace ashlar {

// An engine's memory at the time of an out-of-memory error. The blocks of a paused pool are
// allocated but not reserved.
struct OomUsage {
  size_t allocated_bytes = 0;
  size_t reserved_bytes = 0;
  size_t cached_in_private_pools_bytes = 0;  // free blocks of all pools except the default one
};

// Returns the size of a pool's free blocks.
size_t cached_bytes(const UsageStats& pool);

// Returns a sentence: "2.00 GiB is allocated; 1.00 GiB is reserved but not allocated, of which
// 40.00 MiB is cached by private pools."
std::string describe_usage(const OomUsage& usage);

// Lists the processes that use the device, because the memory is often taken by another process.
// Returns sentences to append to a message, each with a leading space: the memory that this process
// uses, if it exceeds `reserved_bytes`, and the memory that other processes use, largest first.
// Names at most four other processes and adds up the remaining ones. Empty if the device does not
// list processes, or does not list this process under its own pid, as in some containers. Takes up
// to a millisecond; call it with no lock held.
std::string describe_device_processes(Device& device, size_t reserved_bytes);

}  // namespace ashlar
