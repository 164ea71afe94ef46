// SPDX-License-Identifier: Apache-2.0
//
// Provides SIGINT and SIGTERM as a file descriptor, so that a server can shut down cleanly. The
// second signal ends the process immediately, with 128 plus its number as the exit code. The
// handlers stay installed until the process ends. Use from the main thread.
#pragma once

#include <chrono>

#include "ashlar/status.h"
#include "ashlar/unique_fd.h"

namespace ashlar {

class StopSignals {
 public:
  // REQUIRES: called once in a process, without other threads. kDeviceFault: a system call failed.
  static Result<StopSignals> take();

  // A descriptor that becomes readable when a signal arrives, and then stays readable.
  int fd() const { return signals_.get(); }
  // Waits for a signal. Returns immediately if a signal has already arrived.
  void wait() const;
  // Waits at most `timeout`. Returns whether a signal has arrived.
  bool wait_for(std::chrono::milliseconds timeout) const;
  // Waits for a signal or until `other_fd` is readable. Returns whether a signal has arrived.
  bool wait_for_either(int other_fd) const;
  // Returns 128 plus the number of the first signal, the exit code of a command that it interrupts.
  // REQUIRES: a signal has arrived.
  static int exit_code();

 private:
  explicit StopSignals(UniqueFd signals) : signals_(std::move(signals)) {}

  UniqueFd signals_;  // never read, so that it stays readable
};

}  // namespace ashlar
