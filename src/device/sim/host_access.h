// SPDX-License-Identifier: Apache-2.0
//
// The address ranges of simulated device memory, in a form that a signal handler can read. The
// handler that `explain_host_access` installs uses them to explain an access by the host.
#pragma once

#include "ashlar/types.h"

namespace ashlar::sim {

inline constexpr size_t kNoWatch = SIZE_MAX;

// Registers a range and returns an id for unwatch_host_access. Returns kNoWatch if the table of
// 4,096 ranges is full. Thread safe.
size_t watch_host_access(AddressRange range);
// Removes the range. Does nothing for kNoWatch. Thread safe.
void unwatch_host_access(size_t watch);

}  // namespace ashlar::sim
