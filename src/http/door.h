// SPDX-License-Identifier: Apache-2.0
//
// Where a server of ours listens, on this machine only.
#pragma once

#include <cstdint>
#include <string_view>

#include "ashlar/status.h"
#include "ashlar/unique_fd.h"

namespace ashlar::http {

struct Door {
  UniqueFd listening{};
  uint16_t port = 0;  // 0: a Unix socket
};

// 127.0.0.1. With port 0, the system chooses. kDeviceFault: it is taken, or the system refuses.
Result<Door> open_loopback(uint16_t port);
// A Unix socket under an abstract name, of which nothing is left in any file system. Fails
// likewise.
Result<Door> open_local(std::string_view name);

// Whether whoever connected to a Unix socket is a process of our user, or of root, who may look
// into our memory anyway.
bool is_own_user(int socket_fd);

}  // namespace ashlar::http
