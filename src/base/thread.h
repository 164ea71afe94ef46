// SPDX-License-Identifier: Apache-2.0
//
// Starting threads of our own: they take no signals meant for the program, and a thread that cannot
// be had is a Status.
#pragma once

#include <functional>
#include <thread>

#include "ashlar/status.h"

namespace ashlar {

// kDeviceFault: the system has no more threads for us. Passes on what the host throws that has no
// memory.
Result<std::thread> start_thread(std::function<void()> body);

}  // namespace ashlar
