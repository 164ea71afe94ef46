// SPDX-License-Identifier: Apache-2.0
//
// Detects the main thread, and waits for streams interruptibly.
#include "interrupt.h"

#include <unistd.h>

#include "api/unwrap.h"

namespace ashlar::python {

// This check assumes that Python's main thread is the main thread of the process. In programs that
// run Python on another thread, waits are not interruptible. After a fork, the child's only thread
// is its main thread.
bool is_main_thread() { return ::gettid() == ::getpid(); }

void handle_signals() {
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

void wait_for_stream(const DeviceRef& device, StreamId stream,
                     std::shared_ptr<const void> stream_owner) {
  Device& target = device.checked();
  if (is_main_thread()) {
    // Fast path: if the stream is idle, as it usually is, interruptible() need not start a thread.
    const Result<bool> is_idle = without_gil([&] { return target.is_idle(stream); });
    if (is_idle.ok() && *is_idle) return;
  }
  interruptible([device, stream, stream_owner = std::move(stream_owner)](const std::stop_token&) {
    unwrap(device.checked().synchronize_stream(stream));
  });
}

}  // namespace ashlar::python
