// SPDX-License-Identifier: Apache-2.0
//
// Blocks signals in the calling thread while it creates the new thread, which inherits the mask.
// Synchronous signals such as SIGSEGV stay unblocked.
#include "base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

namespace ashlar {

namespace {

// Blocks asynchronous signals for a scope, and restores the signal mask even if thread creation
// throws.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t blocked;
    ::sigfillset(&blocked);
    for (int synchronous : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
      ::sigdelset(&blocked, synchronous);
    }
    ::pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

Result<std::thread> start_thread(std::function<void()> body) {
  const BlockedSignals blocked;
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return Status::device_fault("pthread_create", error.code().value(), error.what());
  }
}

}  // namespace ashlar
