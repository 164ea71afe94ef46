// SPDX-License-Identifier: Apache-2.0
//
// SIGINT and SIGTERM as something to wait for, so that a command that serves ends in order. They
// are taken for the whole process, for as long as this lives. For the main thread.
#pragma once

#include <signal.h>

#include <chrono>

#include "ashlar/status.h"
#include "ashlar/unique_fd.h"

namespace ashlar {

class StopSignals {
 public:
  // To be called before other threads are started. kDeviceFault: the system refuses.
  static Result<StopSignals> take();

  // Readable when one came, and from then on.
  int fd() const { return signals_.get(); }
  // Waits until one comes; it is never forgotten again.
  void wait() const;
  // For so long at most. True: one came.
  bool wait_for(std::chrono::milliseconds patience) const;
  // Waits until one comes, or `other_fd` becomes readable. True: one came.
  bool wait_for_either(int other_fd) const;

 private:
  explicit StopSignals(UniqueFd signals) : signals_(std::move(signals)) {}

  UniqueFd signals_;  // readable when one came; nobody reads it
};

}  // namespace ashlar
