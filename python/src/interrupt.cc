// SPDX-License-Identifier: Apache-2.0
//
// Detection of the main thread, and interruptible waits for streams.
#include "interrupt.h"

#include <unistd.h>

#include "api/unwrap.h"

namespace ashlar::python {

// Assumes that Python's main thread is the process's. In programs that run Python in another
// thread, waits are not interruptible. After a fork, the child's only thread is its main thread.
bool is_main_thread() { return ::gettid() == ::getpid(); }

void handle_signals() {
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

void wait_for_stream(const DeviceRef& device, StreamId stream, std::shared_ptr<const void> keeper) {
  Device& target = device.checked();
  if (is_main_thread()) {
    // Fast path: usually the stream is idle, and no thread is needed.
    const Result<bool> is_idle = without_gil([&] { return target.is_idle(stream); });
    if (is_idle.ok() && *is_idle) return;
  }
  interruptible([device, stream, keeper = std::move(keeper)](const std::stop_token&) {
    unwrap(device.checked().synchronize_stream(stream));
  });
}

}  // namespace ashlar::python
