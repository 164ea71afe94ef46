// SPDX-License-Identifier: Apache-2.0
//
// Listening, and the conversation of one connection: a head, its answer, and the next.
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
#include "http/token.h"

namespace ashlar::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::string_view kTicketPath = "/ticket/";
constexpr size_t kLastPartBytes = 4096;
constexpr milliseconds kFarewell{2'000};
constexpr milliseconds kBodyFarewell{20'000};  // a browser reads the answer after it has sent all

}  // namespace

Result<std::unique_ptr<Server>> Server::start(Handler& handler, ServerOptions options) {
  Result<Sockets> sockets = open_sockets(options);
  if (!sockets.ok()) return sockets.status();
  auto server = std::make_unique<Server>(handler, std::move(options), *std::move(sockets));
  Result<std::thread> listener = start_thread([&server = *server] { server.listen(); });
  if (!listener.ok()) return listener.status();
  server->crew_->listener = *std::move(listener);
  return server;
}

Result<Server::Sockets> Server::open_sockets(const ServerOptions& options) {
  Sockets sockets;
  sockets.stop = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  if (!sockets.stop.valid()) {
    return Status::device_fault(
        "eventfd", errno, text("no descriptor to stop the server by: ", std::strerror(errno)));
  }
  Result<Door> door =
      options.local_name.empty() ? open_loopback(options.port) : open_local(options.local_name);
  if (!door.ok()) return door.status();
  sockets.door = *std::move(door);
  return sockets;
}

Server::Server(Handler& handler, ServerOptions options, Sockets sockets)
    : handler_(handler),
      options_(std::move(options)),
      listening_(std::move(sockets.door.listening)),
      stop_(std::move(sockets.stop)),
      port_(sockets.door.port),
      process_(::getpid()) {}

Server::~Server() {
  if (process_ != ::getpid()) {
    static_cast<void>(crew_.release());
    return;
  }
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof(one));
  if (crew_->listener.joinable()) crew_->listener.join();
  ::shutdown(listening_.get(), SHUT_RDWR);  // for copies of it, too, that a child may have
  // Nobody comes any more; those who are here have yet to say that they leave.
  std::list<Visitor> visitors;
  {
    MutexLock lock(crew_->mutex);
    visitors.swap(crew_->visitors);
  }
  for (Visitor& each : visitors) each.thread.join();
}

std::string Server::address() const {
  return is_local() ? "" : text("http://127.0.0.1:", port_, "/", options_.token, "/");
}

Result<std::string> Server::ticket_address() {
  const Result<std::string> ticket = tickets_.issue(steady_clock::now());
  if (!ticket.ok()) return ticket.status();
  return text("http://127.0.0.1:", port_, kTicketPath, *ticket);
}

// --- around a fork -------------------------------------------------------------------------------

// The compiler's analysis knows of no lock that is let go of in another process.
void Server::before_fork() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  crew_->mutex.lock();
}

void Server::after_fork_in_parent() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  crew_->mutex.unlock();
}

// Something harmless takes the place of each, so that its number is not given to a file that
// whoever still knows the number would close.
void Server::after_fork_in_child() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  ::dup3(stop_.get(), listening_.get(), O_CLOEXEC);
  for (const Visitor& each : crew_->visitors) {
    const int socket_fd = each.connection.socket_fd();
    if (socket_fd >= 0) ::dup3(stop_.get(), socket_fd, O_CLOEXEC);
  }
  crew_->mutex.unlock();
}

// --- on the thread that listens -----------------------------------------------------------------

void Server::listen() {
  std::array<pollfd, 2> waiting = {pollfd{listening_.get(), POLLIN, 0},
                                   pollfd{stop_.get(), POLLIN, 0}};
  while (true) {
    const int ready = ::poll(waiting.data(), waiting.size(), -1);
    if (ready < 0 && errno != EINTR) return;
    if (ready < 0) continue;
    if (waiting[1].revents != 0) return;
    UniqueFd socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      // Out of descriptors or memory: somebody has to leave first.
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) ::poll(&waiting[1], 1, 100);
      continue;
    }
    try {
      welcome(std::move(socket));
    } catch (...) {
      // The host has no memory. The peer sees that it is hung up on, and may come again; the
      // process, which may be anybody's, has other work.
    }
  }
}

void Server::welcome(UniqueFd socket) {
  see_off();
  if (is_local() && !is_own_user(socket.get())) {
    return turn_away(socket, refusal(403, "this is for processes of the same user"));
  }
  const int yes = 1;
  if (!is_local()) ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  if (!make_room()) {
    return turn_away(socket, refusal(503, "there are too many connections; close one"));
  }
  std::list<Visitor> arriving;
  Visitor& visitor = arriving.emplace_back(std::move(socket), stop_.get());
  visitor.is_known = is_local();
  Result<std::thread> thread = start_thread([this, &visitor] { converse(visitor); });
  if (!thread.ok()) return;
  visitor.thread = *std::move(thread);
  MutexLock lock(crew_->mutex);
  crew_->visitors.splice(crew_->visitors.end(), arriving);
}

void Server::turn_away(const UniqueFd& socket, const Answer& answer) {
  const std::string bytes = head_of(answer, false) + answer.body;
  (void)!::send(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

// Whoever comes may know the token; whoever has been here without showing it most likely does not,
// and must not keep others out.
bool Server::make_room() {
  const size_t most = options_.limits.most_connections;
  MutexLock lock(crew_->mutex);
  std::list<Visitor>& all = crew_->visitors;
  if (all.size() < most) return true;
  const auto stranger = std::find_if(all.begin(), all.end(), [](const Visitor& each) {
    return !each.is_known && !each.was_hung_up_on && !each.has_left;
  });
  // Those who leave take a moment. They may be as many as stay.
  if (stranger == all.end() || all.size() >= 2 * most) return false;
  stranger->was_hung_up_on = true;
  ::shutdown(stranger->connection.socket_fd(), SHUT_RDWR);
  return true;
}

void Server::see_off() {
  std::list<Visitor> leaving;
  {
    MutexLock lock(crew_->mutex);
    std::list<Visitor>& all = crew_->visitors;
    for (auto each = all.begin(); each != all.end();) {
      const auto next = std::next(each);
      if (each->has_left) leaving.splice(leaving.end(), all, each);
      each = next;
    }
  }
  for (Visitor& each : leaving) each.thread.join();
}

// --- on a connection's thread -------------------------------------------------------------------

void Server::converse(Visitor& visitor) noexcept {
  try {
    answer_all(visitor);
  } catch (...) {
    // The host has no memory, or the handler gave up: the peer sees that it is hung up on.
  }
  MutexLock lock(crew_->mutex);
  visitor.connection.hang_up();
  visitor.has_left = true;
}

// Only who has shown the token is answered twice, and may take time until then.
void Server::answer_all(Visitor& visitor) {
  bool goes_on = answer_next(visitor, options_.limits.patience);
  while (goes_on) goes_on = answer_next(visitor, options_.limits.idle);
}

bool Server::answer_next(Visitor& visitor, milliseconds until_asked) {
  const ServerLimits& limits = options_.limits;
  Connection& connection = visitor.connection;
  const Result<std::optional<std::string>> bytes =
      connection.read_head(steady_clock::now() + until_asked, limits.patience);
  if (bytes.ok() && !*bytes) return false;
  Answer answer;
  bool keeps_alive = false;
  milliseconds farewell = kFarewell;
  if (!bytes.ok()) {
    if (bytes.status().is(StatusKind::kDeviceFault)) return false;
    const bool is_late = bytes.status().is(StatusKind::kTimeout);
    answer = refusal(is_late ? 408 : 431, bytes.status().message());
  } else {
    const ParsedHead parsed = parse_head(**bytes);
    if (parsed.head) {
      answer = answer_head(*parsed.head, visitor, keeps_alive);
      if (parsed.head->body_bytes > 0) farewell = kBodyFarewell;
    } else {
      answer = refusal(parsed.code, parsed.why);
    }
  }
  if (!connection.write_all(head_of(answer, keeps_alive), limits.patience).ok()) return false;
  if (!send_body(answer, connection)) return false;
  if (!keeps_alive) connection.end_politely(farewell);
  return keeps_alive;
}

// Whoever has all of it may ask at once for what only one can have at a time: so that is given back
// before the last part, which sockets take without anybody reading.
bool Server::send_body(Answer& answer, Connection& connection) const {
  const milliseconds patience = options_.limits.patience;
  const std::string_view body = answer.body;
  const size_t last = body.size() - std::min(body.size(), kLastPartBytes);
  if (!connection.write_all(body.substr(0, last), patience).ok()) return false;
  answer.until_sent.reset();
  return connection.write_all(body.substr(last), patience).ok();
}

Answer Server::answer_head(const RequestHead& head, Visitor& visitor, bool& keeps_alive) {
  Connection& connection = visitor.connection;
  if (!is_our_host(head.host)) return refusal(421, "this server goes by another name");
  if (!is_local() && tickets_.has_issued() && head.path.starts_with(kTicketPath)) {
    return answer_ticket(std::string_view(head.path).substr(kTicketPath.size()), connection);
  }
  const std::optional<std::string_view> path = admitted_path(head);
  if (!path) return refusal(404, "there is nothing here");
  {
    MutexLock lock(crew_->mutex);
    visitor.is_known = true;
  }
  const Question question{head.method, *path, head.query};
  if (head.method == Method::kGet) {
    keeps_alive = head.keeps_alive;
    return handler_.answer(question);
  }
  const uint64_t most_bytes = handler_.most_body_bytes(question);
  if (most_bytes == 0) return refusal(405, "nothing can be posted here");
  if (head.body_bytes > most_bytes) return refusal(413, "that is more than is taken here");
  const RequestBody::Expected expected{.bytes = head.body_bytes, .greets = head.expects_continue};
  return handler_.answer(
      question, std::make_unique<RequestBody>(connection, expected, options_.limits.patience));
}

// Who comes as another user does not even use it up.
Answer Server::answer_ticket(std::string_view ticket, const Connection& connection) {
  constexpr std::string_view kAdvice = "open the address that ashlar printed";
  if (!is_own_users(connection.socket_fd())) {
    return refusal(403, text("this is for programs of the same user; ", kAdvice));
  }
  if (!tickets_.redeem(ticket, steady_clock::now())) {
    return refusal(404, text("this way in works once, and was used or is too old; ", kAdvice));
  }
  Answer answer;
  answer.code = 303;
  answer.location = text("/", options_.token, "/");
  return answer;
}

std::optional<std::string_view> Server::admitted_path(const RequestHead& head) const {
  const std::string_view path = std::string_view(head.path).substr(1);
  if (is_local()) return path;
  if (!head.bearer.empty() && same_token(head.bearer, options_.token)) return path;
  const size_t slash = path.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  if (!same_token(path.substr(0, slash), options_.token)) return std::nullopt;
  return path.substr(slash + 1);
}

// A page of somebody else's whose name was made to lead here would bring its own name along.
bool Server::is_our_host(std::string_view host) const {
  if (is_local()) return host == "localhost";
  return host == text("127.0.0.1:", port_) || host == text("localhost:", port_);
}

}  // namespace ashlar::http
