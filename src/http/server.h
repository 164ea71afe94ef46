// SPDX-License-Identifier: Apache-2.0
//
// A small HTTP/1.1 server for this machine only. It listens on 127.0.0.1 and serves clients that
// present its token, or it listens on a Unix socket and serves processes of the same user or of
// root. All reads and writes have timeouts. The handler decides what to serve; no path maps to the
// file system. Each connection has a thread. Thread safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "ashlar/status.h"
#include "ashlar/unique_fd.h"
#include "base/mutex.h"
#include "format/byte_stream.h"
#include "http/connection.h"
#include "http/listener.h"
#include "http/request.h"
#include "http/response.h"
#include "http/tokens.h"

namespace ashlar::http {

// A request as passed to the handler, without the token: for "/TOKEN/d/0/tile?level=1" the path is
// "d/0/tile".
struct Request {
  Method method = Method::kGet;
  std::string_view path{};    // not decoded
  std::string_view query{};   // not decoded
  std::string_view accept{};  // the Accept field; see preference_for
};

// Handles requests. The threads of connections may call all functions concurrently.
class Handler {
 public:
  virtual ~Handler() = default;

  // Handles a GET request.
  virtual Response handle(const Request& request) = 0;
  // Returns the size of the largest body accepted for the request; 0 if POST is not allowed.
  virtual uint64_t max_body_bytes(const Request& request) const = 0;
  // Handles a POST request. The function need not read the whole body.
  virtual Response handle(const Request& request, std::unique_ptr<ByteSource> body) = 0;
};

struct ServerLimits {
  // When this many clients are connected, a new connection is rejected unless an unauthenticated
  // connection can be closed instead.
  size_t max_connections = 32;
  // The timeout for the first byte of the first request, for the rest of each head, for each read
  // of a body, and for each write.
  std::chrono::milliseconds timeout{10'000};
  std::chrono::milliseconds idle_timeout{60'000};  // between requests from an authenticated client
};

struct ServerOptions {
  uint16_t port = 0;  // 0: the system chooses
  std::string token{};
  // The abstract name of a Unix socket to use instead of a port. The kernel identifies clients, so
  // no token is needed.
  std::string local_name{};
  ServerLimits limits{};
};

class Server {
 public:
  // `handler` outlives the server. kDeviceFault: the port or name is in use, or a system call
  // failed.
  static Result<std::unique_ptr<Server>> start(Handler& handler, ServerOptions options);
  // Closes all connections and waits for handlers in progress. In a forked child, which has none of
  // the threads, the destructor leaves the parent's state untouched.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const { return port_; }  // 0 on a Unix socket
  // Returns "http://127.0.0.1:PORT/TOKEN/"; empty on a Unix socket.
  std::string url() const;
  // Returns a URL, "http://127.0.0.1:PORT/ticket/TOKEN", that redirects to `url` once, within a
  // minute, and only for processes of the same user. REQUIRES: the server is not on a Unix socket.
  // kDeviceFault: random bytes are not available.
  Result<std::string> one_time_url();

  // These functions may be called from pthread_atfork(3) handlers. `after_fork_in_child` closes the
  // child's copies of all sockets: otherwise a child that outlives its parent would keep the port
  // open and clients waiting.
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

 private:
  struct Sockets {
    Listener listener;
    UniqueFd stop;  // readable when all threads must end
  };

 public:
  // Public only for std::make_unique; use start().
  Server(Handler& handler, ServerOptions options, Sockets sockets);

 private:
  static Result<Sockets> open_sockets(const ServerOptions& options);
  bool is_local() const { return !options_.local_name.empty(); }

  // A connected client and its thread. The object has a stable address while the thread runs.
  struct ClientConnection {
    ClientConnection(UniqueFd socket, int stop_fd) : connection(std::move(socket), stop_fd) {}

    Connection connection;  // used by `thread`; the listening thread may shut its socket down
    std::thread thread{};
    // Guarded by Threads::mutex.
    bool is_authenticated = false;  // the client presented the token, or needs no token
    bool is_evicted = false;        // the connection was shut down to make room; it finishes soon
    bool is_finished = false;
  };

  // All threads. They are in a separate object, because a forked child must leak it: the child
  // cannot join threads that it does not have.
  struct Threads {
    std::thread listening{};
    Mutex mutex{};
    std::list<ClientConnection> connections ASHLAR_GUARDED_BY(mutex){};
  };

  // --- run on the listening thread

  void listen();
  // Starts a thread for the connection, or rejects it. Drops the connection if no thread can be
  // started. If host memory runs out, throws std::bad_alloc and drops the connection.
  void accept_connection(UniqueFd socket);
  void reject(const UniqueFd& socket, const Response& response);
  void join_finished();
  // Evicts an unauthenticated client if the connection limit is reached. Returns false if no
  // connection can be added.
  bool make_room();

  // --- run on a connection's thread

  void serve_connection(ClientConnection& client) noexcept;
  void serve_requests(ClientConnection& client);
  // Serves one request. Returns false if the connection must be closed.
  bool serve_next(ClientConnection& client, std::chrono::milliseconds first_byte_timeout);
  // Returns false if the connection failed or the client stopped reading.
  bool send_body(Response& response, Connection& connection) const;
  Response redeem_token(std::string_view token, const Connection& connection);
  Response dispatch(const RequestHead& head, ClientConnection& client, bool& keeps_alive);
  bool is_expected_host(std::string_view host) const;
  enum class TokenCheck { kValid, kMissing, kWrong };
  struct Authorization {
    TokenCheck check = TokenCheck::kMissing;
    std::string_view path{};  // the path without the token, if the token is valid
  };
  Authorization authorize(const RequestHead& head) const;

  Handler& handler_;
  const ServerOptions options_;
  const UniqueFd listening_;
  const UniqueFd stop_;
  const uint16_t port_;
  const pid_t process_;  // the process that owns the threads
  OneTimeTokens one_time_tokens_;
  std::unique_ptr<Threads> threads_ = std::make_unique<Threads>();
};

}  // namespace ashlar::http
