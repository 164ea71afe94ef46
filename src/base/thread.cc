// Signals are blocked in the caller while the thread is made, so that it never sees any. Those that
// a thread brings upon itself (SIGSEGV and its like) stay as they are.
#include "base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

namespace ashlar {

Result<std::thread> start_thread(std::function<void()> body) {
  sigset_t blocked;
  sigset_t before;
  ::sigfillset(&blocked);
  for (int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) ::sigdelset(&blocked, own);
  ::pthread_sigmask(SIG_SETMASK, &blocked, &before);
  Result<std::thread> started = Status();
  try {
    started = std::thread(std::move(body));
  } catch (const std::system_error& error) {
    started = Status::device_fault("pthread_create", error.code().value(), error.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace ashlar
