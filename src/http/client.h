// SPDX-License-Identifier: Apache-2.0
//
// An HTTP client for Ashlar's own servers on Unix sockets. Not thread safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "ashlar/status.h"
#include "http/connection.h"

namespace ashlar::http {

struct ClientResponse {
  int code = 0;
  std::string body{};
  bool keeps_alive = true;  // false if the server closes the connection
};

struct ClientLimits {
  uint64_t max_body_bytes = uint64_t{16} << 20;
  // Applies to each write, to the first byte of the response, to the rest of its head, and to each
  // read of its body.
  std::chrono::milliseconds timeout{10'000};
  // From the start of the request to the end of the response. Checked while the body is read.
  std::chrono::milliseconds total_timeout{60'000};
};

class Client {
 public:
  // REQUIRES: `socket` is connected. Requests are cancelled when `stop_fd` becomes readable; -1:
  // never.
  explicit Client(UniqueFd socket, int stop_fd = -1) : connection_(std::move(socket), stop_fd) {}

  // Sends GET `target`, such as "/stats", and returns the response. May be called repeatedly.
  // kTimeout: no response in time. kDeviceFault: the connection failed or was closed, or the
  // request was cancelled. kFormat: not an HTTP response, or larger than the limits allow.
  // Reconnect after a failure.
  Result<ClientResponse> get(std::string_view target, const ClientLimits& limits = {});

 private:
  Connection connection_;
};

}  // namespace ashlar::http
