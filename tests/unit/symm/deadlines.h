// SPDX-License-Identifier: Apache-2.0
//
// Short and long deadlines for tests of symmetric memory.
#pragma once

#include <chrono>

#include "ashlar/deadline.h"

namespace ashlar::symm {

// Returns a deadline for waits that must succeed, long enough for a loaded machine under a
// sanitizer.
inline Deadline long_deadline() { return Deadline::after(std::chrono::seconds(50)); }
// Returns a deadline for waits that must time out.
inline Deadline short_deadline() { return Deadline::after(std::chrono::milliseconds(2)); }
inline Deadline past_deadline() { return Deadline::after(std::chrono::nanoseconds(0)); }

}  // namespace ashlar::symm
