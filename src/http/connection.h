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

  // `stop_fd` becomes readable to cancel all operations.
  Connection(UniqueFd socket, int stop_fd) : socket_(std::move(socket)), stop_fd_(stop_fd) {}

  // The socket, for peer credentials; -1 after `close`.
  int socket_fd() const { return socket_.get(); }
  // Shuts the socket down before closing it, because forked processes may have copies.
  void close();

  // Reads at most into.size() bytes; 0 at the end of the stream. kTimeout: nothing arrived in time.
  // kDeviceFault: the connection failed, or was cancelled.
  Result<size_t> read_some(std::span<char> into, Time deadline);
  // Writes all bytes. `timeout` applies to each part that the peer accepts.
  Status write_all(std::string_view bytes, std::chrono::milliseconds timeout);

  // Reads up to and including an empty line; later reads continue after it. Empty if the peer sent
  // nothing before closing or before `first_byte_by`. kTimeout as above. kFormat: longer than
  // kMaxHeadBytes.
  Result<std::optional<std::string>> read_head(Time first_byte_by,
                                               std::chrono::milliseconds head_timeout);

  // Shuts down writing and drains input for a while, so that the peer can read the last response
  // before its own data is refused.
  void close_gracefully(std::chrono::milliseconds timeout);

 private:
  enum class Direction { kRead, kWrite };
  Status wait(Direction direction, Time deadline);

  UniqueFd socket_;
  int stop_fd_;
  std::string buffered_{};  // received but not yet returned
};

// The body of a request, of known length.
class RequestBody final : public ByteSource {
 public:
  // `connection` outlives the body. With `expects_continue`, the client waits for "100 Continue".
  struct Expected {
    uint64_t bytes = 0;
    bool expects_continue = false;
  };
  RequestBody(Connection& connection, Expected expected, std::chrono::milliseconds timeout)
      : connection_(connection), expected_(expected), timeout_(timeout) {}

  // kFormat: the body ends early, or nothing arrived in time.
  Result<size_t> read(std::span<char> into) override;
  uint64_t remaining_bytes() const { return expected_.bytes; }

 private:
  Connection& connection_;
  Expected expected_;
  std::chrono::milliseconds timeout_;
};

}  // namespace ashlar::http
