// SPDX-License-Identifier: Apache-2.0
//
// Lets other programs observe the allocators of this process: `ashlar top PID` in a terminal,
// `ashlar view --live PID` in a browser, and Prometheus. docs/how-to/monitoring.md shows how to use
// it; docs/reference/formats/live.md describes the protocol.
//
//   ashlar::LiveServer live;                                  // enough for `ashlar top`
//   ashlar::LiveServer live({.port = 9464, .token = token});  // also listens on a port
//
// Live monitoring is off unless the program creates a LiveServer or the environment sets
// ASHLAR_LIVE. A server covers all allocators of the process, including those created later.
// Observers change nothing, except that taking a snapshot is recorded in the history. Observers
// delay an allocator only while its statistics or a snapshot are copied; threads of the server send
// the copy. The server is reachable from this machine only: through a Unix socket, by processes of
// the same user, and optionally through a port of 127.0.0.1, by clients that present the token.
// Observers cannot access files.
//
// Errors: functions throw.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ashlar/export.h"

namespace ashlar {

struct LiveOptions {
  std::optional<uint16_t> port{};  // also listen on this port of 127.0.0.1; 0: any free port
  // The token that clients of the port must present: 16 to 128 letters, digits, '-' and '_'.
  // Empty: a random token.
  std::string token{};
};

// Serves observers until it is destroyed.
class ASHLAR_EXPORT LiveServer {
 public:
  // Starts the server. Throws InvalidArgument for an unacceptable token, or a token without a port;
  // DeviceError if the port is in use or a system call fails.
  explicit LiveServer(const LiveOptions& options = {});
  // Closes all connections.
  ~LiveServer();
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

  // Returns the abstract name of the Unix socket.
  const std::string& socket_name() const;
  // Returns "http://127.0.0.1:PORT/TOKEN/"; empty if the server has no port.
  std::string url() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ashlar
