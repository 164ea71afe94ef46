// SPDX-License-Identifier: Apache-2.0
//
// A client that can send malformed requests and returns every byte of the response.
#pragma once

#include <cstdint>
#include <string>

#include "ashlar/unique_fd.h"

namespace ashlar {

class SocketClient {
 public:
  explicit SocketClient(uint16_t port);

  // Sends bytes. Returns false if the server has closed the connection.
  bool send(std::string bytes);
  void end_sending();
  // Reads until the server closes the connection.
  std::string read_all();
  // Reads one response: the head, and the body that it announces.
  std::string read_response();

 private:
  std::string take(size_t count);

  UniqueFd socket_;
  std::string ahead_;
};

// Returns the status code; 0 if the response has none.
int code_of(const std::string& response);
// Returns the body, which is the part after the empty line.
std::string body_of(const std::string& response);

}  // namespace ashlar
