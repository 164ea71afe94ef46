// SPDX-License-Identifier: Apache-2.0
//
// Makes long calls interruptible by Ctrl-C. Python handles signals on its main thread, and only
// between bytecodes, so a blocking call on the main thread delays them. `interruptible` runs the
// call on another thread while the main thread polls for signals.
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

// Returns whether the calling thread is the main thread of the process, which is assumed to be
// Python's main thread.
bool is_main_thread();

// Runs Python's handlers of pending signals. Throws the exception that a handler raises, such as
// KeyboardInterrupt. REQUIRES: the GIL is held.
void handle_signals();

// Runs `work(std::stop_token)` without the GIL. Returns its result or rethrows its exception. The
// call is interruptible only on the main thread. If a signal handler raises, throws the handler's
// exception immediately and requests a stop; the work continues on its thread until it checks the
// stop token. The work must therefore own everything that it uses, and must not use Python.
// REQUIRES: the GIL is held.
template <typename Work>
std::invoke_result_t<Work, std::stop_token> interruptible(Work work) {
  using Value = std::invoke_result_t<Work, std::stop_token>;
  std::stop_source stop;
  const auto task = std::make_shared<std::packaged_task<Value()>>(
      [work = std::move(work), token = stop.get_token()]() mutable { return work(token); });
  std::future<Value> value = task->get_future();
  std::thread runner;
  if (is_main_thread()) {
    Result<std::thread> started = start_thread([task] { (*task)(); });
    if (started.ok()) runner = *std::move(started);
  }
  if (!runner.joinable()) {  // not the main thread, or no thread could be started
    without_gil([&] { (*task)(); });
    return value.get();
  }
  constexpr auto kPollInterval = std::chrono::milliseconds(20);
  try {
    while (without_gil([&] { return value.wait_for(kPollInterval); }) !=
           std::future_status::ready) {
      handle_signals();
    }
  } catch (...) {
    stop.request_stop();
    runner.detach();
    throw;
  }
  without_gil([&] { runner.join(); });
  return value.get();
}

// Waits for all work queued in the stream so far. `stream_owner` keeps the stream alive. REQUIRES:
// the GIL is held.
void wait_for_stream(const DeviceRef& device, StreamId stream,
                     std::shared_ptr<const void> stream_owner);

}  // namespace ashlar::python
