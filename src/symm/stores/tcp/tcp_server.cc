// SPDX-License-Identifier: Apache-2.0
//
// The loop of the server of a TCP store.
#include "symm/stores/tcp/tcp_server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/fork_guard.h"
#include "base/text.h"
#include "base/thread.h"
#include "http/tokens.h"

namespace ashlar::symm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Ids of epoll events that belong to no connection.
constexpr uint64_t kListenerEvent = UINT64_MAX;
constexpr uint64_t kStopEvent = UINT64_MAX - 1;
// How long the server accepts no connections after it ran out of file descriptors or memory.
constexpr milliseconds kAcceptPause{100};
constexpr milliseconds kMaxStoreWait{60'000};
constexpr int kSendBufferBytes = 64 * 1024;

bool add_to_epoll(int epoll_fd, int fd, uint64_t id) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  return ::epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

Status server_error(const char* call) {
  return Status::device_fault(call, errno, text(call, " failed: ", std::strerror(errno)));
}

}  // namespace

Result<std::shared_ptr<TcpStoreServer>> TcpServer::start(const TcpStoreServerOptions& options) {
  if (!is_valid_token(options.token)) {
    return Status::invalid_argument(text("a store token of ", options.token.size(),
                                         " characters: expected ", kMinTokenBytes, " to ",
                                         kMaxTokenBytes, " printable characters without spaces"));
  }
  Result<TcpListener> listener = listen_tcp({options.host, options.port});
  if (!listener.ok()) return listener.status();
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return server_error("epoll_create1");
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) return server_error("eventfd");
  if (!add_to_epoll(epoll.get(), listener->socket.get(), kListenerEvent) ||
      !add_to_epoll(epoll.get(), stop.get(), kStopEvent)) {
    return server_error("epoll_ctl");
  }
  auto server = make_fork_guarded<TcpServer>(options, *std::move(listener), std::move(epoll),
                                             std::move(stop));
  Result<std::thread> thread = start_thread([&server = *server] { server.run(); });
  if (!thread.ok()) return thread.status();
  server->thread_ = *std::move(thread);
  return std::shared_ptr<TcpStoreServer>(std::move(server));
}

TcpServer::TcpServer(const TcpStoreServerOptions& options, TcpListener listener, UniqueFd epoll,
                     UniqueFd stop)
    : token_(options.token),
      max_connections_(options.max_connections),
      listener_(std::move(listener)),
      epoll_(std::move(epoll)),
      stop_(std::move(stop)),
      service_(options.max_bytes) {}

// Shuts the sockets down in addition to closing them, because forked children may have copies.
TcpServer::~TcpServer() {
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
  ::shutdown(listener_.socket.get(), SHUT_RDWR);
  for (const auto& [id, connection] : connections_) ::shutdown(connection.socket.get(), SHUT_RDWR);
}

bool TcpServer::wait_for_disconnects(size_t remaining, Deadline deadline) {
  MutexLock lock(mutex_);
  while (connection_count_ > remaining) {
    if (deadline.is_never()) {
      lock.wait(disconnected_);
    } else if (!lock.wait_until(disconnected_, deadline.at()) && connection_count_ > remaining) {
      return false;
    }
  }
  return true;
}

// The server's thread.

void TcpServer::run() noexcept {
  run_steps([this] { return step(); }, [] { return false; });
}

bool TcpServer::step() {
  std::array<epoll_event, 64> events{};
  const int count =
      ::epoll_wait(epoll_.get(), events.data(), events.size(), poll_timeout_ms(Clock::now()));
  const Time now = Clock::now();
  for (int i = 0; i < count; ++i) {
    const uint64_t id = events[i].data.u64;
    if (id == kStopEvent) return false;
    if (id == kListenerEvent) {
      accept_all(now);
      continue;
    }
    const auto found = connections_.find(id);
    if (found == connections_.end()) continue;  // closed by an earlier event
    bool stays_open = false;
    try {
      stays_open = on_ready(found->second, events[i].events, now);
    } catch (...) {
      // Host memory has run out: the connection is closed, and the client may try again.
    }
    if (!stays_open) close(id);
  }
  finish_waits(now);
  run_timers(now);
  return true;
}

void TcpServer::accept_all(Time now) {
  for (;;) {
    UniqueFd socket(
        ::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return;
      // Out of descriptors or memory. The listener would stay ready, so it is not watched for a
      // while; a timer without a connection enables it again.
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.socket.get(), nullptr);
      timers_.emplace(now + kAcceptPause, kListenerEvent);
      return;
    }
    if (connections_.size() >= max_connections_ && unauthenticated_.empty()) continue;
    if (unauthenticated_.size() >= kMaxUnauthenticated || connections_.size() >= max_connections_) {
      evict_unauthenticated();
    }
    // Bounds the memory that the kernel uses for a client that does not read its responses.
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof(kSendBufferBytes));
    add_connection(std::move(socket), now);
  }
}

void TcpServer::add_connection(UniqueFd socket, Time now) {
  const uint64_t id = next_id_++;
  if (!add_to_epoll(epoll_.get(), socket.get(), id)) return;
  Connection connection;
  connection.id = id;
  connection.socket = std::move(socket);
  Connection& added = connections_.emplace(id, std::move(connection)).first->second;
  {
    MutexLock lock(mutex_);
    ++connection_count_;
  }
  try {
    unauthenticated_.insert(id);
    set_timer(added, now + kMessageTimeout);
  } catch (...) {
    close(id);  // host memory has run out; without a timer, the connection could stay forever
  }
}

// Closes the oldest unauthenticated connection, which has had the most time to send the token.
void TcpServer::evict_unauthenticated() {
  if (!unauthenticated_.empty()) close(*unauthenticated_.begin());
}

bool TcpServer::on_ready(Connection& connection, uint32_t events, Time now) {
  if (!connection.output.empty()) {
    return (events & (EPOLLERR | EPOLLHUP)) == 0 && flush(connection, now);
  }
  return receive(connection, now);
}

// Receives what is available, up to the end of one request. A client that sends anything while its
// kWait is pending violates the protocol, and is disconnected.
bool TcpServer::receive(Connection& connection, Time now) {
  std::array<char, 16384> bytes{};
  while (connection.output.empty()) {
    const ssize_t got = ::recv(connection.socket.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0 || connection.is_waiting) return false;
    const auto count = static_cast<size_t>(got);
    if (buffer_bytes_ + count > kMaxBufferBytes) return false;
    if (connection.input.empty() && connection.is_authenticated) {
      set_timer(connection, now + kMessageTimeout);
    }
    connection.input.append(bytes.data(), count);
    buffer_bytes_ += count;
    if (!handle_input(connection, now)) return false;
    if (connection.is_waiting) return true;
  }
  return true;
}

// Handles the request in the input, if it is complete.
bool TcpServer::handle_input(Connection& connection, Time now) {
  std::string& input = connection.input;
  if (input.size() < kFrameHeaderBytes) return true;
  const size_t bytes = body_bytes(input);
  if (bytes > (connection.is_authenticated ? kMaxRequestBytes : kMaxHelloBytes)) return false;
  if (input.size() < kFrameHeaderBytes + bytes) return true;
  // A client waits for the response before it sends the next request.
  if (input.size() > kFrameHeaderBytes + bytes) return false;
  const Result<StoreRequest> request =
      parse_request(std::string_view(input).substr(kFrameHeaderBytes));
  buffer_bytes_ -= input.size();
  input = std::string();
  set_timer(connection, {});
  return request.ok() && handle(connection, *request, now);
}

bool TcpServer::handle(Connection& connection, const StoreRequest& request, Time now) {
  if (!connection.is_authenticated) return authenticate(connection, request, now);
  if (request.call == StoreCall::kHello) return false;
  if (request.call != StoreCall::kWait) {
    return send(connection, service_.perform(request, now), now);
  }
  if (request.version != service_.version()) return send(connection, {}, now);
  connection.is_waiting = true;
  connection.waits_for_version = request.version;
  waiting_.insert(connection.id);
  set_timer(connection, now + std::min(milliseconds(request.wait_ms), kMaxStoreWait));
  return true;
}

bool TcpServer::authenticate(Connection& connection, const StoreRequest& request, Time now) {
  if (request.call != StoreCall::kHello) return false;
  if (!http::tokens_equal(request.token, token_)) {
    // Best effort: the response fits into the socket's buffer.
    const std::string bytes = serialize(StoreResponse{
        .status = Status::invalid_argument("the token is wrong; use that of the server")});
    (void)!::send(connection.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return false;
  }
  connection.is_authenticated = true;
  unauthenticated_.erase(connection.id);
  return send(connection, {}, now);
}

bool TcpServer::send(Connection& connection, const StoreResponse& response, Time now) {
  connection.output = serialize(response);
  connection.sent_bytes = 0;
  buffer_bytes_ += connection.output.size();
  return buffer_bytes_ <= kMaxBufferBytes && flush(connection, now);
}

// Sends as much of the output as the socket accepts.
bool TcpServer::flush(Connection& connection, Time now) {
  std::string& output = connection.output;
  while (connection.sent_bytes < output.size()) {
    const ssize_t sent = ::send(connection.socket.get(), output.data() + connection.sent_bytes,
                                output.size() - connection.sent_bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) return false;
    if (sent < 0) {
      if (connection.timer == Time{}) set_timer(connection, now + kMessageTimeout);
      return watch_output(connection, true);
    }
    connection.sent_bytes += static_cast<size_t>(sent);
  }
  buffer_bytes_ -= output.size();
  output = std::string();
  set_timer(connection, {});
  return watch_output(connection, false);
}

// Sends the responses to the kWait requests that a write has ended.
void TcpServer::finish_waits(Time now) {
  for (auto each = waiting_.begin(); each != waiting_.end();) {
    const uint64_t id = *each++;
    Connection& connection = connections_.at(id);
    if (connection.waits_for_version == service_.version()) continue;
    connection.is_waiting = false;
    waiting_.erase(id);
    set_timer(connection, {});
    if (!send(connection, {}, now)) close(id);
  }
}

void TcpServer::run_timers(Time now) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const uint64_t id = timers_.begin()->second;
    if (id == kListenerEvent) {
      timers_.erase(timers_.begin());
      if (!add_to_epoll(epoll_.get(), listener_.socket.get(), kListenerEvent)) {
        timers_.emplace(now + kAcceptPause, kListenerEvent);
      }
      continue;
    }
    Connection& connection = connections_.at(id);
    const bool was_waiting = connection.is_waiting;
    set_timer(connection, {});
    if (was_waiting) {
      connection.is_waiting = false;
      waiting_.erase(id);
    }
    if (!was_waiting || !send(connection, {}, now)) close(id);
  }
}

// Replaces the connection's timer; Time{} removes it.
void TcpServer::set_timer(Connection& connection, Time at) {
  if (connection.timer == at) return;
  if (at != Time{}) timers_.emplace(at, connection.id);
  if (connection.timer != Time{}) timers_.erase({connection.timer, connection.id});
  connection.timer = at;
}

bool TcpServer::watch_output(Connection& connection, bool is_wanted) {
  if (connection.is_output_watched == is_wanted) return true;
  epoll_event event{};
  event.events = is_wanted ? EPOLLOUT : EPOLLIN;
  event.data.u64 = connection.id;
  connection.is_output_watched = is_wanted;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.socket.get(), &event) == 0;
}

void TcpServer::close(uint64_t id) {
  const auto found = connections_.find(id);
  Connection& connection = found->second;
  buffer_bytes_ -= connection.input.size() + connection.output.size();
  if (connection.timer != Time{}) timers_.erase({connection.timer, id});
  unauthenticated_.erase(id);
  waiting_.erase(id);
  ::shutdown(connection.socket.get(), SHUT_RDWR);
  connections_.erase(found);
  MutexLock lock(mutex_);
  --connection_count_;
  disconnected_.notify_all();
}

int TcpServer::poll_timeout_ms(Time now) const {
  if (timers_.empty()) return -1;
  const auto left = std::chrono::ceil<milliseconds>(timers_.begin()->first - now).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

Result<std::shared_ptr<TcpStoreServer>> try_start_tcp_store_server(
    const TcpStoreServerOptions& options) {
  return TcpServer::start(options);
}

Result<std::string> try_new_store_token() { return http::generate_token(); }

}  // namespace ashlar::symm
