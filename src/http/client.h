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
  // The timeout for each write, for the first byte of the response, for the rest of its head, and
  // for each read of its body.
  std::chrono::milliseconds timeout{10'000};
  // The timeout from the start of the request to the end of the response. Checked while the body is
  // read.
  std::chrono::milliseconds total_timeout{60'000};
};

class Client {
 public:
  // Requests are cancelled when `stop_fd` becomes readable; -1 means never. REQUIRES: `socket` is
  // connected.
  explicit Client(UniqueFd socket, int stop_fd = -1) : connection_(std::move(socket), stop_fd) {}

  // Sends GET `target`, such as "/stats", and returns the response. May be called repeatedly.
  // kTimeout: the response did not arrive in time. kDeviceFault: the connection failed or was
  // closed, or the request was cancelled. kFormat: the response is not HTTP, or is larger than the
  // limits allow. After a failure, a new connection is needed.
  Result<ClientResponse> get(std::string_view target, const ClientLimits& limits = {});

 private:
  Connection connection_;
};

}  // namespace ashlar::http
