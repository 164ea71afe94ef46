// SPDX-License-Identifier: Apache-2.0
//
// A signal handler writes to an eventfd(2), which is never read.
#include "cli/view/stop_signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/text.h"

namespace ashlar {
namespace {

constexpr int kSignalExitBase = 128;  // as in shells

std::atomic<int> event_fd = -1;
std::atomic<int> first_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler uses the variables above");

void handle_signal(int signal) {
  const int saved_errno = errno;
  int none = 0;
  if (!first_signal.compare_exchange_strong(none, signal)) ::_exit(kSignalExitBase + signal);
  const uint64_t one = 1;
  (void)!::write(event_fd.load(), &one, sizeof(one));
  errno = saved_errno;
}

}  // namespace

Result<StopSignals> StopSignals::take() {
  UniqueFd signals(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!signals.valid()) {
    return Status::device_fault("eventfd", errno,
                                text("cannot wait for signals: ", std::strerror(errno)));
  }
  event_fd = signals.get();
  struct sigaction action {};
  action.sa_handler = handle_signal;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
  return StopSignals(std::move(signals));
}

int StopSignals::exit_code() { return kSignalExitBase + first_signal.load(); }

void StopSignals::wait() const { wait_for_either(-1); }

bool StopSignals::wait_for(std::chrono::milliseconds timeout) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  pollfd waiting{signals_.get(), POLLIN, 0};
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

bool StopSignals::wait_for_either(int other_fd) const {
  std::array<pollfd, 2> waiting = {pollfd{signals_.get(), POLLIN, 0}, pollfd{other_fd, POLLIN, 0}};
  while (::poll(waiting.data(), waiting.size(), -1) < 0 && errno == EINTR) {
  }
  return waiting[0].revents != 0;
}

}  // namespace ashlar
