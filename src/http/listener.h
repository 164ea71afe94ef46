// SPDX-License-Identifier: Apache-2.0
//
// Listening sockets on this machine: 127.0.0.1 or a Unix socket, and the identity of their peers.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "ashlar/status.h"
#include "ashlar/unique_fd.h"

namespace ashlar::http {

struct Listener {
  UniqueFd socket{};
  uint16_t port = 0;  // 0 for a Unix socket
};

// Listens on 127.0.0.1. Port 0 lets the system choose. kDeviceFault: the port is in use, or the
// system refuses.
Result<Listener> listen_loopback(uint16_t port);
// Listens on a Unix socket with an abstract name, which leaves nothing in the file system. Fails
// like listen_loopback.
Result<Listener> listen_local(std::string_view name);

// Whether the peer on a Unix socket is our user, or root, which can read our memory anyway.
bool is_local_peer_own_user(int socket_fd);

// Both ports of a connection over 127.0.0.1.
struct LoopbackPorts {
  uint16_t own = 0;
  uint16_t peer = 0;
};
// The user of the peer's socket according to /proc/net/tcp; none if it is not listed or has no
// owner.
std::optional<uid_t> peer_user_in(std::string_view lines, const LoopbackPorts& ports);
// Whether the peer of a connection over 127.0.0.1 is our user; false if unknown.
bool is_loopback_peer_own_user(int socket_fd);

}  // namespace ashlar::http
