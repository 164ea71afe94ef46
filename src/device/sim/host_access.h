// SPDX-License-Identifier: Apache-2.0
//
// Which host addresses stand for simulated device memory, in a form that a signal handler may
// read: so that `explain_host_access` can name a wrong dereference.
#pragma once

#include "ashlar/types.h"

namespace ashlar::sim {

// Thread safe. Returns the watch to end later; past a few thousand ranges at once, further ones are
// not watched, and the watch is kNoWatch.
inline constexpr size_t kNoWatch = SIZE_MAX;
size_t watch_host_access(AddressRange range);
void unwatch_host_access(size_t watch);

}  // namespace ashlar::sim
