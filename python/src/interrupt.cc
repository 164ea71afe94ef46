// SPDX-License-Identifier: Apache-2.0
//
// Who the main thread is, and waiting for streams.
#include "interrupt.h"

#include <unistd.h>

#include "api/unwrap.h"

namespace ashlar::python {

// The system's main thread is Python's, but for programs that have Python in another one, where
// nothing is lost: there, calls wait as they are. A child's only thread is its main one.
bool is_main_thread() { return ::gettid() == ::getpid(); }

void handle_signals() {
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

void wait_for_stream(const DeviceUse& device, StreamId stream, std::shared_ptr<const void> keeper) {
  Device& here = device.here();
  if (is_main_thread()) {
    // Mostly there is nothing to wait for, and no need of a thread.
    const Result<bool> is_idle = without_gil([&] { return here.is_idle(stream); });
    if (is_idle.ok() && *is_idle) return;
  }
  interruptible([device, stream, keeper = std::move(keeper)](const std::stop_token&) {
    unwrap(device.here().synchronize_stream(stream));
  });
}

}  // namespace ashlar::python
