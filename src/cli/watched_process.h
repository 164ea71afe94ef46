// SPDX-License-Identifier: Apache-2.0
//
// Another process that shows itself, asked again and again. For one thread at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/snapshot.h"
#include "ashlar/status.h"
#include "cli/live_numbers.h"
#include "http/client.h"

namespace ashlar {

class WatchedProcess {
 public:
  // `stop_fd` becomes readable when nobody wants answers any more; -1: that never happens.
  // Nothing is asked yet.
  explicit WatchedProcess(pid_t pid, int stop_fd = -1) : pid_(pid), stop_fd_(stop_fd) {}

  pid_t pid() const { return pid_; }

  // kInvalidArgument: there is no such process, or it shows nothing. kPeerLost: it did, and does no
  // more. kTimeout: it does not answer. kFormat: what it says makes no sense.
  Result<LiveNumbers> look();
  // The same; also kInvalidArgument: it has no such allocator.
  Result<Snapshot> take_snapshot(uint64_t allocator);

 private:
  Result<http::ClientResponse> ask(const std::string& target, const http::ClientLimits& limits);
  Result<http::ClientResponse> ask_once(const std::string& target,
                                        const http::ClientLimits& limits);

  const pid_t pid_;
  const int stop_fd_;
  std::optional<http::Client> client_{};  // none: not connected
  bool was_seen_ = false;
};

// kPeerLost: what is said of a process that was watched before.
Status process_is_gone(pid_t pid);

// A process that can be watched now, and what it tells.
struct Watchable {
  pid_t pid = 0;
  Result<LiveNumbers> numbers;
};
// By their numbers. kDeviceFault: the system lists no sockets.
Result<std::vector<Watchable>> watchable_processes();

}  // namespace ashlar
