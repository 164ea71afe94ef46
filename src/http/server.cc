// SPDX-License-Identifier: Apache-2.0
//
// Runs the listening thread and one thread per connection.
#include "http/server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "base/thread.h"
#include "http/tokens.h"

namespace ashlar::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::string_view kTicketPath = "/ticket/";
constexpr std::string_view kTokenRequired =
    "a token is required: put it at the start of the path, /TOKEN/PATH, or into the field "
    "Authorization: Bearer TOKEN";
constexpr std::string_view kTokenWrong = "the token is wrong; it may be that of an earlier run";
constexpr size_t kLastPartBytes = 4096;
constexpr milliseconds kLinger{2'000};
constexpr milliseconds kBodyLinger{
    20'000};  // a browser reads the response only after it has sent the body

}  // namespace

Result<std::unique_ptr<Server>> Server::start(Handler& handler, ServerOptions options) {
  Result<Sockets> sockets = open_sockets(options);
  if (!sockets.ok()) return sockets.status();
  auto server = std::make_unique<Server>(handler, std::move(options), *std::move(sockets));
  Result<std::thread> listener = start_thread([&server = *server] { server.listen(); });
  if (!listener.ok()) return listener.status();
  server->threads_->listening = *std::move(listener);
  return server;
}

Result<Server::Sockets> Server::open_sockets(const ServerOptions& options) {
  Sockets sockets;
  sockets.stop = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  if (!sockets.stop.valid()) {
    return Status::device_fault("eventfd", errno,
                                text("cannot create an eventfd: ", std::strerror(errno)));
  }
  Result<Listener> listener =
      options.local_name.empty() ? listen_loopback(options.port) : listen_local(options.local_name);
  if (!listener.ok()) return listener.status();
  sockets.listener = *std::move(listener);
  return sockets;
}

Server::Server(Handler& handler, ServerOptions options, Sockets sockets)
    : handler_(handler),
      options_(std::move(options)),
      listening_(std::move(sockets.listener.socket)),
      stop_(std::move(sockets.stop)),
      port_(sockets.listener.port),
      process_(::getpid()) {}

Server::~Server() {
  if (process_ != ::getpid()) {
    static_cast<void>(threads_.release());
    return;
  }
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof(one));
  if (threads_->listening.joinable()) threads_->listening.join();
  ::shutdown(listening_.get(), SHUT_RDWR);  // also shuts down its copies in forked children
  // No new connections arrive from here on, so the existing connections can be joined.
  std::list<ClientConnection> connections;
  {
    MutexLock lock(threads_->mutex);
    connections.swap(threads_->connections);
  }
  for (ClientConnection& each : connections) each.thread.join();
}

std::string Server::url() const {
  return is_local() ? "" : text("http://127.0.0.1:", port_, "/", options_.token, "/");
}

Result<std::string> Server::one_time_url() {
  const Result<std::string> token = one_time_tokens_.issue(steady_clock::now());
  if (!token.ok()) return token.status();
  return text("http://127.0.0.1:", port_, kTicketPath, *token);
}

// Forking.

// Clang's thread safety analysis cannot model a lock that is released in another process.
void Server::before_fork() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  threads_->mutex.lock();
}

void Server::after_fork_in_parent() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  threads_->mutex.unlock();
}

// Replaces each socket by a copy of stop_ instead of closing it: otherwise the child could open a
// file that gets the socket's descriptor number, and the descriptor's owner would later close that
// file.
void Server::after_fork_in_child() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  ::dup3(stop_.get(), listening_.get(), O_CLOEXEC);
  for (const ClientConnection& each : threads_->connections) {
    const int socket_fd = each.connection.socket_fd();
    if (socket_fd >= 0) ::dup3(stop_.get(), socket_fd, O_CLOEXEC);
  }
  threads_->mutex.unlock();
}

// The listening thread.

void Server::listen() {
  std::array<pollfd, 2> polled = {pollfd{listening_.get(), POLLIN, 0},
                                  pollfd{stop_.get(), POLLIN, 0}};
  while (true) {
    const int ready = ::poll(polled.data(), polled.size(), -1);
    if (ready < 0 && errno != EINTR) return;
    if (ready < 0) continue;
    if (polled[1].revents != 0) return;
    UniqueFd socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      // The process is probably out of descriptors or memory. Tries again after 100 ms, when a
      // connection may have ended.
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) ::poll(&polled[1], 1, 100);
      continue;
    }
    try {
      accept_connection(std::move(socket));
    } catch (...) {
      // Host memory has run out. The connection is dropped, because the user's process must not
      // fail; the client may retry.
    }
  }
}

void Server::accept_connection(UniqueFd socket) {
  join_finished();
  if (is_local() && !is_local_peer_own_user(socket.get())) {
    return reject(socket, error_response(403, "only processes of the same user may connect"));
  }
  const int yes = 1;
  if (!is_local()) ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  if (!make_room()) {
    return reject(socket, error_response(503, "too many connections; close one"));
  }
  std::list<ClientConnection> accepted;
  ClientConnection& client = accepted.emplace_back(std::move(socket), stop_.get());
  client.is_authenticated = is_local();
  Result<std::thread> thread = start_thread([this, &client] { serve_connection(client); });
  if (!thread.ok()) return;
  client.thread = *std::move(thread);
  MutexLock lock(threads_->mutex);
  threads_->connections.splice(threads_->connections.end(), accepted);
}

void Server::reject(const UniqueFd& socket, const Response& response) {
  const std::string bytes = format_head(response, false) + response.body;
  (void)!::send(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

// Prefers new clients, which may have the token, to connected clients that have not presented it.
bool Server::make_room() {
  const size_t max = options_.limits.max_connections;
  MutexLock lock(threads_->mutex);
  std::list<ClientConnection>& all = threads_->connections;
  if (all.size() < max) return true;
  const auto unauthenticated =
      std::find_if(all.begin(), all.end(), [](const ClientConnection& each) {
        return !each.is_authenticated && !each.is_evicted && !each.is_finished;
      });
  // Evicted connections take some time to end. Up to max_connections of them may exist in addition.
  if (unauthenticated == all.end() || all.size() >= 2 * max) return false;
  unauthenticated->is_evicted = true;
  ::shutdown(unauthenticated->connection.socket_fd(), SHUT_RDWR);
  return true;
}

void Server::join_finished() {
  std::list<ClientConnection> finished;
  {
    MutexLock lock(threads_->mutex);
    std::list<ClientConnection>& all = threads_->connections;
    for (auto each = all.begin(); each != all.end();) {
      const auto next = std::next(each);
      if (each->is_finished) finished.splice(finished.end(), all, each);
      each = next;
    }
  }
  for (ClientConnection& each : finished) each.thread.join();
}

// Connection threads.

void Server::serve_connection(ClientConnection& client) noexcept {
  try {
    serve_requests(client);
  } catch (...) {
    // Host memory has run out, or the handler threw. The connection is closed.
  }
  MutexLock lock(threads_->mutex);
  client.connection.close();
  client.is_finished = true;
}

// Serves the requests of a client. Only authenticated clients may send further requests, each
// within the idle timeout.
void Server::serve_requests(ClientConnection& client) {
  bool has_more = serve_next(client, options_.limits.timeout);
  while (has_more) has_more = serve_next(client, options_.limits.idle_timeout);
}

bool Server::serve_next(ClientConnection& client, milliseconds first_byte_timeout) {
  const ServerLimits& limits = options_.limits;
  Connection& connection = client.connection;
  const Result<std::optional<std::string>> bytes =
      connection.read_head(steady_clock::now() + first_byte_timeout, limits.timeout);
  if (bytes.ok() && !*bytes) return false;
  Response response;
  bool keeps_alive = false;
  milliseconds linger = kLinger;
  if (!bytes.ok()) {
    if (bytes.status().is(StatusKind::kDeviceFault)) return false;
    const bool is_late = bytes.status().is(StatusKind::kTimeout);
    response = error_response(is_late ? 408 : 431, bytes.status().message());
  } else {
    const ParsedHead parsed = parse_head(**bytes);
    if (parsed.head) {
      response = dispatch(*parsed.head, client, keeps_alive);
      if (parsed.head->body_bytes > 0) linger = kBodyLinger;
    } else {
      response = error_response(parsed.code, parsed.why);
    }
  }
  if (!connection.write_all(format_head(response, keeps_alive), limits.timeout).ok()) return false;
  if (!send_body(response, connection)) return false;
  if (!keeps_alive) connection.close_gracefully(linger);
  return keeps_alive;
}

// Releases `keep_until_sent` before it sends the last part, which fits into the socket's buffer. A
// client that has received the whole response can then immediately request the exclusive resource
// again.
bool Server::send_body(Response& response, Connection& connection) const {
  const milliseconds timeout = options_.limits.timeout;
  const std::string_view body = response.body;
  const size_t last = body.size() - std::min(body.size(), kLastPartBytes);
  if (!connection.write_all(body.substr(0, last), timeout).ok()) return false;
  response.keep_until_sent.reset();
  return connection.write_all(body.substr(last), timeout).ok();
}

Response Server::dispatch(const RequestHead& head, ClientConnection& client, bool& keeps_alive) {
  Connection& connection = client.connection;
  if (!is_expected_host(head.host)) return error_response(421, "unexpected Host");
  if (!is_local() && one_time_tokens_.has_issued() && head.path.starts_with(kTicketPath)) {
    return redeem_token(std::string_view(head.path).substr(kTicketPath.size()), connection);
  }
  const Authorization authorization = authorize(head);
  if (authorization.check == TokenCheck::kMissing) return error_response(401, kTokenRequired);
  if (authorization.check == TokenCheck::kWrong) return error_response(403, kTokenWrong);
  {
    MutexLock lock(threads_->mutex);
    client.is_authenticated = true;
  }
  const Request request{head.method, authorization.path, head.query, head.accept};
  if (head.method == Method::kGet) {
    keeps_alive = head.keeps_alive;
    return handler_.handle(request);
  }
  const uint64_t max_bytes = handler_.max_body_bytes(request);
  if (max_bytes == 0) return error_response(405, "POST is not allowed here");
  if (head.body_bytes > max_bytes) return error_response(413, "the body is too large");
  const RequestBody::Expected expected{.bytes = head.body_bytes,
                                       .expects_continue = head.expects_continue};
  return handler_.handle(
      request, std::make_unique<RequestBody>(connection, expected, options_.limits.timeout));
}

// Exchanges a one-time token for the URL. A request by another user does not consume the token.
Response Server::redeem_token(std::string_view token, const Connection& connection) {
  constexpr std::string_view kAdvice = "open the address that ashlar printed";
  if (!is_loopback_peer_own_user(connection.socket_fd())) {
    return error_response(403,
                          text("only programs of the same user may use this address; ", kAdvice));
  }
  if (!one_time_tokens_.redeem(token, steady_clock::now())) {
    return error_response(403,
                          text("this one-time address was used already or has expired; ", kAdvice));
  }
  Response response;
  response.code = 303;
  response.location = text("/", options_.token, "/");
  return response;
}

// A token in the path is the part before the second slash: "/metrics" has none.
Server::Authorization Server::authorize(const RequestHead& head) const {
  const std::string_view path = std::string_view(head.path).substr(1);
  if (is_local()) return {TokenCheck::kValid, path};
  if (!head.bearer.empty() && tokens_equal(head.bearer, options_.token)) {
    return {TokenCheck::kValid, path};
  }
  const size_t slash = path.find('/');
  if (slash == std::string_view::npos) {
    return {head.bearer.empty() ? TokenCheck::kMissing : TokenCheck::kWrong, {}};
  }
  if (!tokens_equal(path.substr(0, slash), options_.token)) return {TokenCheck::kWrong, {}};
  return {TokenCheck::kValid, path.substr(slash + 1)};
}

// Prevents DNS rebinding: in the Host field, a browser sends the name of the page's own host, even
// if that name resolves to 127.0.0.1.
bool Server::is_expected_host(std::string_view host) const {
  if (is_local()) return host == "localhost";
  return host == text("127.0.0.1:", port_) || host == text("localhost:", port_);
}

}  // namespace ashlar::http
