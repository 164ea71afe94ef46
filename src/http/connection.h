// SPDX-License-Identifier: Apache-2.0
//
// One connection's bytes: read and written with a deadline, and given up at once when the server
// stops. For one thread.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ashlar/status.h"
#include "ashlar/unique_fd.h"
#include "format/byte_stream.h"

namespace ashlar::http {

class Connection {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `stop_fd` becomes readable when it is time to end.
  Connection(UniqueFd socket, int stop_fd) : socket_(std::move(socket)), stop_fd_(stop_fd) {}

  // For asking who is there; -1 after the end.
  int socket_fd() const { return socket_.get(); }
  // The end, for the other side too: processes that were forked off may have copies of the socket,
  // which would keep it open.
  void hang_up();

  // What comes next, at most as much as fits; 0: the other side has no more to say.
  // kTimeout: nothing came in time. kDeviceFault: the connection is gone, or we stop.
  Result<size_t> read_some(std::span<char> into, Time deadline);
  // All of it, as long as the other side keeps taking some of it within `patience`.
  Status write_all(std::string_view bytes, std::chrono::milliseconds patience);

  // The bytes up to an empty line, which the next read begins behind.
  // kTimeout as above. kFormat: it is longer than heads may be. None: nothing came, in order.
  Result<std::optional<std::string>> read_head(Time first_byte_by, std::chrono::milliseconds rest);

  // Says that no more is to come, and reads on for a moment, so that the other side gets to read
  // the last answer before its own bytes are refused.
  void end_politely(std::chrono::milliseconds patience);

 private:
  enum class Wish { kRead, kWrite };
  Status wait(Wish wish, Time deadline);

  UniqueFd socket_;
  int stop_fd_;
  std::string ahead_{};  // read, but not asked for yet
};

// The body of a request, as long as it is said to be.
class RequestBody final : public ByteSource {
 public:
  // `connection` outlives it. With `greets`, the other side waits for a word before it sends.
  struct Expected {
    uint64_t bytes = 0;
    bool greets = false;
  };
  RequestBody(Connection& connection, Expected expected, std::chrono::milliseconds patience)
      : connection_(connection), expected_(expected), patience_(patience) {}

  // kFormat: it ends early, or nothing came in time.
  Result<size_t> read(std::span<char> into) override;
  uint64_t left_bytes() const { return expected_.bytes; }

 private:
  Connection& connection_;
  Expected expected_;
  std::chrono::milliseconds patience_;
};

}  // namespace ashlar::http
