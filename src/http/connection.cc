// SPDX-License-Identifier: Apache-2.0
//
// The socket does not block; poll(2) waits, for the stop as well.
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

Status gone(std::string_view call, int error) {
  return Status::device_fault(call, error, text("the connection is gone: ", std::strerror(error)));
}

}  // namespace

Status Connection::wait(Wish wish, Time deadline) {
  std::array<pollfd, 2> waiting = {
      pollfd{socket_.get(), static_cast<short>(wish == Wish::kRead ? POLLIN : POLLOUT), 0},
      pollfd{stop_fd_, POLLIN, 0}};
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now()).count();
    const int timeout = static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000));
    const int ready = ::poll(waiting.data(), waiting.size(), timeout);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return gone("poll", errno);
    if (waiting[1].revents != 0) return gone("poll", ECANCELED);
    if (waiting[0].revents != 0) return {};
    if (left <= 0) return Status::timeout("nothing was heard of the other side in time");
  }
}

Result<size_t> Connection::read_some(std::span<char> into, Time deadline) {
  if (!ahead_.empty()) {
    const size_t count = ahead_.copy(into.data(), into.size());
    ahead_.erase(0, count);
    return count;
  }
  while (true) {
    const ssize_t got = ::recv(socket_.get(), into.data(), into.size(), MSG_DONTWAIT);
    if (got >= 0) return static_cast<size_t>(got);
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return gone("recv", errno);
    if (Status ready = wait(Wish::kRead, deadline); !ready.ok()) return ready;
  }
}

Status Connection::write_all(std::string_view bytes, milliseconds patience) {
  while (!bytes.empty()) {
    const ssize_t sent =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return gone("send", errno);
    const Status ready = wait(Wish::kWrite, steady_clock::now() + patience);
    if (!ready.ok()) return ready;
  }
  return {};
}

Result<std::optional<std::string>> Connection::read_head(Time first_byte_by, milliseconds rest) {
  std::string head = std::exchange(ahead_, {});
  Time deadline = head.empty() ? first_byte_by : steady_clock::now() + rest;
  std::array<char, 4096> buffer{};
  while (true) {
    if (const std::optional<size_t> end = end_of_head(head); end && *end <= kMostHeadBytes) {
      ahead_ = head.substr(*end);
      head.resize(*end);
      return std::optional(std::move(head));
    }
    if (head.size() >= kMostHeadBytes) return Status::format("the head of the request is too long");
    const Result<size_t> got = read_some(buffer, deadline);
    if (!got.ok() && head.empty() && got.status().is(StatusKind::kTimeout)) {
      return std::optional<std::string>();
    }
    if (!got.ok()) return got.status();
    if (*got == 0 && head.empty()) return std::optional<std::string>();
    if (*got == 0) return gone("recv", ECONNRESET);
    // From here on the whole head has one deadline: byte by byte is no way to keep a thread.
    if (head.empty()) deadline = steady_clock::now() + rest;
    head.append(buffer.data(), *got);
  }
}

void Connection::end_politely(milliseconds patience) {
  const Time deadline = steady_clock::now() + patience;
  ::shutdown(socket_.get(), SHUT_WR);
  std::array<char, 65536> nowhere{};
  while (steady_clock::now() < deadline) {
    const Result<size_t> got = read_some(nowhere, deadline);
    if (!got.ok() || *got == 0) return;
  }
}

void Connection::hang_up() {
  if (!socket_.valid()) return;
  ::shutdown(socket_.get(), SHUT_RDWR);
  socket_.reset();
}

Result<size_t> RequestBody::read(std::span<char> into) {
  if (expected_.bytes == 0) return size_t{0};
  if (std::exchange(expected_.greets, false)) {
    const Status greeted = connection_.write_all("HTTP/1.1 100 Continue\r\n\r\n", patience_);
    if (!greeted.ok()) return Status::format(greeted.message());
  }
  const size_t most = std::min<uint64_t>(into.size(), expected_.bytes);
  const Result<size_t> got =
      connection_.read_some(into.first(most), steady_clock::now() + patience_);
  if (!got.ok()) return Status::format(got.status().message());
  if (*got == 0) return Status::format(text("ends early: ", expected_.bytes, " B are missing"));
  expected_.bytes -= *got;
  return *got;
}

}  // namespace ashlar::http
