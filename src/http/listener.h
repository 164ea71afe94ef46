// SPDX-License-Identifier: Apache-2.0
//
// Creates listening sockets on 127.0.0.1 or with a Unix socket name, and identifies the users of
// connected peers.
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

// Listens on 127.0.0.1. If `port` is 0, the system chooses a port. kDeviceFault: the port is in
// use, or a system call failed.
Result<Listener> listen_loopback(uint16_t port);
// Listens on a Unix socket with an abstract name, which leaves nothing in the file system.
// kDeviceFault: the name is in use, or a system call failed.
Result<Listener> listen_local(std::string_view name);

// Returns whether the peer on a Unix socket runs as the user of this process, or as root, which can
// read this process's memory anyway; false if the user is unknown.
bool is_local_peer_own_user(int socket_fd);

// The two ports of a connection over 127.0.0.1.
struct LoopbackPorts {
  uint16_t own = 0;
  uint16_t peer = 0;
};
// Returns the user of the peer's socket; nullopt if the socket is not listed or belongs to no
// process. `lines` is the content of /proc/net/tcp.
std::optional<uid_t> peer_user_in(std::string_view lines, const LoopbackPorts& ports);
// Returns whether the peer of a connection over 127.0.0.1 runs as the user of this process; false
// if the user is unknown.
bool is_loopback_peer_own_user(int socket_fd);

}  // namespace ashlar::http
