// SPDX-License-Identifier: Apache-2.0
//
// Client of a process with live monitoring on (docs/reference/formats/live.md). Not thread safe.
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
#include "cli/live/live_stats.h"
#include "http/client.h"

namespace ashlar {

class LiveClient {
 public:
  // Does not connect yet. Requests are cancelled when `stop_fd` becomes readable; -1 means never.
  explicit LiveClient(pid_t pid, int stop_fd = -1) : pid_(pid), stop_fd_(stop_fd) {}

  pid_t pid() const { return pid_; }

  // Requests the current statistics.
  // kInvalidArgument: the process does not exist, belongs to another user, or has live monitoring
  // off. kPeerLost: an earlier request succeeded, but the process can no longer be reached.
  // kDeviceFault: no request has succeeded yet, and the connection failed or the request was
  // cancelled. kTimeout: the process did not respond. kFormat: the response is malformed or has an
  // HTTP status other than 200.
  Result<LiveStats> get_stats();
  // Takes a snapshot of one allocator. Fails like get_stats(), and with kInvalidArgument if the
  // process has no such allocator.
  Result<Snapshot> take_snapshot(uint64_t allocator);

 private:
  Result<http::ClientResponse> request(const std::string& target, const http::ClientLimits& limits);
  Result<http::ClientResponse> request_once(const std::string& target,
                                            const http::ClientLimits& limits);

  const pid_t pid_;
  const int stop_fd_;
  std::optional<http::Client> client_{};  // empty: not connected
  bool was_connected_before_ = false;
};

// Returns the kPeerLost error for a process that was monitored before.
Status process_ended_error(pid_t pid);

// The statistics of a process that has live monitoring on, or the error of the request.
struct LiveProcessStats {
  pid_t pid = 0;
  Result<LiveStats> stats;
};
// Returns the statistics of all processes of this user that have live monitoring on, sorted by PID.
// kDeviceFault: sockets cannot be listed.
Result<std::vector<LiveProcessStats>> find_live_processes();

}  // namespace ashlar
