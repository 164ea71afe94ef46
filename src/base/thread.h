// SPDX-License-Identifier: Apache-2.0
//
// Starts threads with signals blocked, so that the program's own threads receive the signals.
// Reports failure as a Status.
#pragma once

#include <functional>
#include <thread>

#include "ashlar/status.h"

namespace ashlar {

// Starts a thread that runs `body`. kDeviceFault: the system refuses more threads. Throws
// std::bad_alloc if host memory runs out.
Result<std::thread> start_thread(std::function<void()> body);

}  // namespace ashlar
