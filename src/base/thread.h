// SPDX-License-Identifier: Apache-2.0
//
// Starts threads with signals blocked, so that the program's own threads receive the signals, and
// runs their loops so that an exception does not end the process.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "ashlar/status.h"

namespace ashlar {

// Starts a thread that runs `body`. kDeviceFault: the system refuses more threads. Throws
// std::bad_alloc if host memory runs out.
Result<std::thread> start_thread(std::function<void()> body);

// Calls `step` until it returns false: the loop of a service thread. If a step throws, usually
// because host memory has run out, waits for 10 ms and continues, unless `is_stopping` returns
// true. REQUIRES: a step can be repeated after it has thrown; `is_stopping` does not throw.
template <typename Step, typename IsStopping>
void run_steps(const Step& step, const IsStopping& is_stopping) noexcept {
  constexpr std::chrono::milliseconds kRetryInterval{10};
  for (bool has_next = true; has_next;) {
    try {
      has_next = step();
    } catch (...) {
      has_next = !is_stopping();
      if (has_next) std::this_thread::sleep_for(kRetryInterval);
    }
  }
}

}  // namespace ashlar
