// SPDX-License-Identifier: Apache-2.0
//
// Deadlines for tests of the UCX transport.
#pragma once

#include <chrono>

#include "ashlar/deadline.h"

namespace ashlar::symm {

inline Deadline test_deadline() { return Deadline::after(std::chrono::seconds(60)); }

}  // namespace ashlar::symm
