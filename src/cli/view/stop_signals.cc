// SPDX-License-Identifier: Apache-2.0
//
// Blocks the signals and polls a signalfd(2), without ever reading from it.
#include "cli/view/stop_signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/text.h"

namespace ashlar {

Result<StopSignals> StopSignals::take() {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  ::sigaddset(&wanted, SIGINT);
  ::sigaddset(&wanted, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
  UniqueFd signals(::signalfd(-1, &wanted, SFD_CLOEXEC));
  if (!signals.valid()) {
    return Status::device_fault("signalfd", errno,
                                text("cannot wait for signals: ", std::strerror(errno)));
  }
  return StopSignals(std::move(signals));
}

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
