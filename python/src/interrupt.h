// SPDX-License-Identifier: Apache-2.0
//
// Calls that may wait for long, and Ctrl-C. Python handles signals on its main thread, and only
// where that runs Python: a call that waits would keep them waiting, too. So the main thread has
// such a call made by another one, and looks for signals until it is done.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/thread.h"
#include "devices.h"
#include "gil.h"

namespace ashlar::python {

// Whether this thread is the one that handles signals.
bool is_main_thread();

// Runs what Python does about the signals that came. Throws what that raises: KeyboardInterrupt.
// REQUIRES: the GIL is held.
void handle_signals();

// Runs `work(std::stop_token)` without the GIL, and hands on what it returns or throws; or throws
// what a signal raises, at once. The work then goes on alone, with a stop requested, until it
// notices: it must own all that it uses, and touch nothing of Python's.
// REQUIRES: the GIL is held.
template <typename Work>
std::invoke_result_t<Work, std::stop_token> interruptible(Work work) {
  using Answer = std::invoke_result_t<Work, std::stop_token>;
  std::stop_source stop;
  const auto task = std::make_shared<std::packaged_task<Answer()>>(
      [work = std::move(work), token = stop.get_token()]() mutable { return work(token); });
  std::future<Answer> answer = task->get_future();
  std::thread runner;
  if (is_main_thread()) {
    Result<std::thread> started = start_thread([task] { (*task)(); });
    if (started.ok()) runner = *std::move(started);
  }
  if (!runner.joinable()) {  // nobody interrupts other threads; and without one, this one waits
    without_gil([&] { (*task)(); });
    return answer.get();
  }
  constexpr auto kLook = std::chrono::milliseconds(20);
  try {
    while (without_gil([&] { return answer.wait_for(kLook); }) != std::future_status::ready) {
      handle_signals();
    }
  } catch (...) {
    stop.request_stop();
    runner.detach();
    throw;
  }
  without_gil([&] { runner.join(); });
  return answer.get();
}

// Waits for all work queued in the stream so far. `keeper` is what keeps the stream alive.
// REQUIRES: the GIL is held.
void wait_for_stream(const DeviceUse& device, StreamId stream, std::shared_ptr<const void> keeper);

}  // namespace ashlar::python
