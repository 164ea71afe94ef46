// SPDX-License-Identifier: Apache-2.0
//
// A client that can send anything, well-formed or not, and sees every byte of the answer.
#pragma once

#include <cstdint>
#include <string>

#include "ashlar/unique_fd.h"

namespace ashlar {

class SocketClient {
 public:
  explicit SocketClient(uint16_t port);

  // False: the other side has hung up.
  bool send(std::string bytes);
  void end_sending();
  // Everything until the other side hangs up.
  std::string read_all();
  // One answer: its head, and as many bytes as it says.
  std::string read_answer();

 private:
  std::string take(size_t count);

  UniqueFd socket_;
  std::string ahead_;
};

// The number in "HTTP/1.1 404 Not Found"; 0: there is none.
int code_of(const std::string& answer);
// Behind the empty line.
std::string body_of(const std::string& answer);

}  // namespace ashlar
