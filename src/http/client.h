// SPDX-License-Identifier: Apache-2.0
//
// Asks a server of ours at a Unix socket. For one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "ashlar/status.h"
#include "http/connection.h"

namespace ashlar::http {

struct Reply {
  int code = 0;
  std::string body{};
  bool keeps_alive = true;  // false: that was the last one of the connection
};

struct ClientLimits {
  uint64_t most_body_bytes = uint64_t{16} << 20;
  std::chrono::milliseconds patience{10'000};  // for the head, and for every further part of a body
  std::chrono::milliseconds whole{60'000};     // for all of it: parts may be small
};

class Client {
 public:
  // `socket` is connected. `stop_fd` becomes readable when nobody wants the answer any more; -1:
  // that never happens.
  explicit Client(UniqueFd socket, int stop_fd = -1) : connection_(std::move(socket), stop_fd) {}

  // The answer to GET `target`, such as "/stats". Again, on the same connection.
  // kTimeout: it was not there in time. kDeviceFault: the other side hung up, or we stop. kFormat:
  // it is no answer, or has more bytes than the limits allow. After a failure, connect anew.
  Result<Reply> get(std::string_view target, const ClientLimits& limits = {});

 private:
  Connection connection_;
};

}  // namespace ashlar::http
