// SPDX-License-Identifier: Apache-2.0
//
// Makes non-blocking socket calls, and waits with poll(2) for data and for cancellation.
#include "http/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "http/request.h"

namespace ashlar::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

Status connection_error(std::string_view call, int error) {
  return Status::device_fault(call, error, text("the connection failed: ", std::strerror(error)));
}

}  // namespace

Status Connection::wait(Direction direction, Time deadline) {
  std::array<pollfd, 2> polled = {
      pollfd{socket_.get(), static_cast<short>(direction == Direction::kRead ? POLLIN : POLLOUT),
             0},
      pollfd{stop_fd_, POLLIN, 0}};
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now()).count();
    const int timeout = static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000));
    const int ready = ::poll(polled.data(), polled.size(), timeout);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return connection_error("poll", errno);
    if (polled[1].revents != 0) return connection_error("poll", ECANCELED);
    if (polled[0].revents != 0) return {};
    if (left <= 0) return Status::timeout("the peer did not respond in time");
  }
}

Result<size_t> Connection::read_some(std::span<char> into, Time deadline) {
  if (!buffered_.empty()) {
    const size_t count = buffered_.copy(into.data(), into.size());
    buffered_.erase(0, count);
    return count;
  }
  while (true) {
    const ssize_t got = ::recv(socket_.get(), into.data(), into.size(), MSG_DONTWAIT);
    if (got >= 0) return static_cast<size_t>(got);
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return connection_error("recv", errno);
    if (Status ready = wait(Direction::kRead, deadline); !ready.ok()) return ready;
  }
}

Status Connection::write_all(std::string_view bytes, milliseconds timeout) {
  while (!bytes.empty()) {
    const ssize_t sent =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return connection_error("send", errno);
    const Status ready = wait(Direction::kWrite, steady_clock::now() + timeout);
    if (!ready.ok()) return ready;
  }
  return {};
}

Result<std::optional<std::string>> Connection::read_head(Time first_byte_deadline,
                                                         milliseconds head_timeout) {
  std::string head = std::exchange(buffered_, {});
  Time deadline = head.empty() ? first_byte_deadline : steady_clock::now() + head_timeout;
  std::array<char, 4096> buffer{};
  while (true) {
    if (const std::optional<size_t> end = end_of_head(head); end && *end <= kMaxHeadBytes) {
      buffered_ = head.substr(*end);
      head.resize(*end);
      return std::optional(std::move(head));
    }
    if (head.size() >= kMaxHeadBytes) return Status::format("the head of the request is too long");
    const Result<size_t> got = read_some(buffer, deadline);
    if (!got.ok() && head.empty() && got.status().is(StatusKind::kTimeout)) {
      return std::optional<std::string>();
    }
    if (!got.ok()) return got.status();
    if (*got == 0 && head.empty()) return std::optional<std::string>();
    if (*got == 0) return connection_error("recv", ECONNRESET);
    // One deadline applies to the rest of the head, so that a client that sends the head byte by
    // byte cannot occupy a thread indefinitely.
    if (head.empty()) deadline = steady_clock::now() + head_timeout;
    head.append(buffer.data(), *got);
  }
}

void Connection::close_gracefully(milliseconds timeout) {
  const Time deadline = steady_clock::now() + timeout;
  ::shutdown(socket_.get(), SHUT_WR);
  std::array<char, 65536> discarded{};
  while (steady_clock::now() < deadline) {
    const Result<size_t> got = read_some(discarded, deadline);
    if (!got.ok() || *got == 0) return;
  }
}

void Connection::close() {
  if (!socket_.valid()) return;
  ::shutdown(socket_.get(), SHUT_RDWR);
  socket_.reset();
}

Result<size_t> RequestBody::read(std::span<char> into) {
  if (expected_.bytes == 0) return size_t{0};
  if (std::exchange(expected_.expects_continue, false)) {
    const Status continued = connection_.write_all("HTTP/1.1 100 Continue\r\n\r\n", timeout_);
    if (!continued.ok()) return Status::format(continued.message());
  }
  const size_t max = std::min<uint64_t>(into.size(), expected_.bytes);
  const Result<size_t> got = connection_.read_some(into.first(max), steady_clock::now() + timeout_);
  if (!got.ok()) return Status::format(got.status().message());
  if (*got == 0) return Status::format(text("ends early: ", expected_.bytes, " B are missing"));
  expected_.bytes -= *got;
  return *got;
}

}  // namespace ashlar::http
