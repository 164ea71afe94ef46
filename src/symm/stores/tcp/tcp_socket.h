// SPDX-License-Identifier: Apache-2.0
//
// TCP sockets with deadlines: listening, connecting, and sending and receiving frames. Thread safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ashlar/deadline.h"
#include "ashlar/status.h"
#include "ashlar/unique_fd.h"

namespace ashlar::symm {

struct TcpAddress {
  std::string host{};  // a name or an address
  uint16_t port = 0;

  std::string to_string() const;  // "127.0.0.1:5000", "[::1]:5000"
};

struct TcpListener {
  UniqueFd socket{};  // non-blocking
  uint16_t port = 0;
};

// kDeviceFault: the address does not exist or is in use.
Result<TcpListener> listen_tcp(const TcpAddress& address);
// Returns a connected non-blocking socket. kTimeout: the deadline passed. kDeviceFault: the
// connection was refused, or the name is unknown.
Result<UniqueFd> connect_tcp(const TcpAddress& address, Deadline deadline);

// Sends all bytes. Never raises SIGPIPE.
Status send_all(int socket_fd, std::string_view bytes, Deadline deadline);
// Receives a frame and returns its body. kFormat: the frame announces more than `max_bytes`.
Result<std::string> receive_frame(int socket_fd, size_t max_bytes, Deadline deadline);

}  // namespace ashlar::symm
