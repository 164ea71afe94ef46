// SPDX-License-Identifier: Apache-2.0
//
// Buffered reads and writes on one connection, with deadlines and cancellation. Not thread safe.
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

  // Waits are cancelled when `stop_fd` becomes readable; -1 means never.
  Connection(UniqueFd socket, int stop_fd) : socket_(std::move(socket)), stop_fd_(stop_fd) {}

  // Returns the socket, for peer credentials; -1 after `close`.
  int socket_fd() const { return socket_.get(); }
  // Shuts the socket down before closing it, because forked processes may have copies.
  void close();

  // Reads at most into.size() bytes and returns their number; 0 at the end of the stream. kTimeout:
  // nothing arrived before the deadline. kDeviceFault: the connection failed, or the wait was
  // cancelled.
  Result<size_t> read_some(std::span<char> into, Time deadline);
  // Writes all bytes. kTimeout: the peer accepted no more bytes for `timeout`. kDeviceFault: the
  // connection failed, or the wait was cancelled.
  Status write_all(std::string_view bytes, std::chrono::milliseconds timeout);

  // Reads up to and including an empty line; later reads continue after it. Returns nullopt if the
  // peer sent nothing before it closed the connection or before `first_byte_deadline`. kTimeout:
  // the head was not complete `head_timeout` after its first byte. kFormat: the head is longer than
  // kMaxHeadBytes.
  Result<std::optional<std::string>> read_head(Time first_byte_deadline,
                                               std::chrono::milliseconds head_timeout);

  // Shuts down writing, and discards input until the peer closes the connection or `timeout`
  // passes. Closing with unread input would reset the connection, and the peer might lose the last
  // response.
  void close_gracefully(std::chrono::milliseconds timeout);

 private:
  enum class Direction { kRead, kWrite };
  Status wait(Direction direction, Time deadline);

  UniqueFd socket_;
  int stop_fd_;
  std::string buffered_{};  // bytes that were received but not yet returned
};

// The body of a request. Its length is known from the head.
class RequestBody final : public ByteSource {
 public:
  struct Expected {
    uint64_t bytes = 0;
    bool expects_continue = false;  // the client waits for "100 Continue" before it sends the body
  };
  // `connection` outlives the body. `timeout` applies to each read and to "100 Continue".
  RequestBody(Connection& connection, Expected expected, std::chrono::milliseconds timeout)
      : connection_(connection), expected_(expected), timeout_(timeout) {}

  // kFormat: the body ends early, or a read failed or timed out.
  Result<size_t> read(std::span<char> into) override;
  uint64_t remaining_bytes() const { return expected_.bytes; }

 private:
  Connection& connection_;
  Expected expected_;
  std::chrono::milliseconds timeout_;
};

}  // namespace ashlar::http
