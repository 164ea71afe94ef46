// SPDX-License-Identifier: Apache-2.0
//
// Provides SIGINT and SIGTERM as a file descriptor, so that a server can shut down cleanly. The
// signals stay blocked for the whole process. Must be used on the main thread.
#pragma once

#include <signal.h>

#include <chrono>

#include "ashlar/status.h"
#include "ashlar/unique_fd.h"

namespace ashlar {

class StopSignals {
 public:
  // Blocks the signals. REQUIRES: the process has no other threads. kDeviceFault: a system call
  // failed.
  static Result<StopSignals> take();

  // A descriptor that becomes readable when a signal arrives, and then stays readable.
  int fd() const { return signals_.get(); }
  // Waits for a signal. Returns immediately if a signal has already arrived.
  void wait() const;
  // Waits at most `timeout`. Returns whether a signal has arrived.
  bool wait_for(std::chrono::milliseconds timeout) const;
  // Waits for a signal or until `other_fd` is readable. Returns whether a signal has arrived.
  bool wait_for_either(int other_fd) const;

 private:
  explicit StopSignals(UniqueFd signals) : signals_(std::move(signals)) {}

  UniqueFd signals_;  // never read, so that it stays readable
};

}  // namespace ashlar
