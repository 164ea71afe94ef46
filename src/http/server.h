// SPDX-License-Identifier: Apache-2.0
//
// A small HTTP/1.1 server for this machine only: it listens on 127.0.0.1 and answers those who know
// its token, or at a Unix socket for processes of its own user; and never waits long for anybody.
// What it serves is the handler's business; no path leads to the file system. A thread for each
// connection, of which there are few. Thread safe.
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
#include "http/answer.h"
#include "http/connection.h"
#include "http/door.h"
#include "http/request.h"
#include "http/ticket.h"

namespace ashlar::http {

// What is asked, below the token: for "/TOKEN/d/0/tile?level=1", the path is "d/0/tile".
struct Question {
  Method method = Method::kGet;
  std::string_view path{};   // as sent
  std::string_view query{};  // as sent
};

class Handler {
 public:
  virtual ~Handler() = default;

  // Called by several threads at once.
  virtual Answer answer(const Question& question) = 0;
  // How long a body it takes for a question; 0: it is not one to be posted.
  virtual uint64_t most_body_bytes(const Question& question) const = 0;
  // The same for a question with a body, which need not be read to its end.
  virtual Answer answer(const Question& question, std::unique_ptr<ByteSource> body) = 0;
};

struct ServerLimits {
  // More are turned away; but of those who have not shown the token, the first to come is hung up
  // on instead.
  size_t most_connections = 32;
  std::chrono::milliseconds patience{10'000};  // for a head, and for every further part of a body
  std::chrono::milliseconds idle{60'000};      // between the questions of who has the token
};

struct ServerOptions {
  uint16_t port = 0;  // 0: the system chooses
  std::string token{};
  // The abstract name of a Unix socket, instead of a port: the kernel says who asks, and no token
  // is needed.
  std::string local_name{};
  ServerLimits limits{};
};

class Server {
 public:
  // `handler` outlives it. kDeviceFault: the port is taken, or the system refuses.
  static Result<std::unique_ptr<Server>> start(Handler& handler, ServerOptions options);
  // Ends all connections, and waits for the answers that are being made. In a process that was
  // forked off, which has none of the threads: touches nothing of the parent's.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const { return port_; }  // 0: at a Unix socket
  // "http://127.0.0.1:PORT/TOKEN/"; empty: at a Unix socket.
  std::string address() const;
  // An address that leads to the other one, once and within a minute, for processes of our user:
  // whoever else sees it has nothing of it. "http://127.0.0.1:PORT/ticket/TICKET".
  // REQUIRES: not at a Unix socket. kDeviceFault: the system has no random bytes.
  Result<std::string> ticket_address();

  // For handlers of pthread_atfork(3), around every fork(2). A child that outlives its parent would
  // otherwise keep the door open, and those who knock waiting for ever; in the child, copies of all
  // sockets are given up. Where nobody calls these, only that is lost.
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

 private:
  struct Sockets {
    Door door;
    UniqueFd stop;  // readable when all threads must end
  };

 public:
  // For start() alone: nobody else can name what it takes.
  Server(Handler& handler, ServerOptions options, Sockets sockets);

 private:
  static Result<Sockets> open_sockets(const ServerOptions& options);
  bool is_local() const { return !options_.local_name.empty(); }

  // Somebody who is connected, and the thread that answers. Stays in its place while the thread
  // runs.
  struct Visitor {
    Visitor(UniqueFd socket, int stop_fd) : connection(std::move(socket), stop_fd) {}

    Connection connection;  // the thread's own, but for its end
    std::thread thread{};
    // Guarded by the crew's mutex.
    bool is_known = false;        // it has shown the token, or needs none
    bool was_hung_up_on = false;  // to make room: it will have left soon
    bool has_left = false;
  };

  // All threads. Apart from the server, since a child that was forked off cannot end threads that
  // it does not have: it leaves all this where it is.
  struct Crew {
    std::thread listener{};
    Mutex mutex{};
    std::list<Visitor> visitors ASHLAR_GUARDED_BY(mutex){};
  };

  // --- on the thread that listens
  void listen();
  // Throws what the host throws that has no memory; then nobody was welcomed.
  void welcome(UniqueFd socket);
  void turn_away(const UniqueFd& socket, const Answer& answer);
  void see_off();
  // False: there is none.
  bool make_room();

  // --- on a connection's thread
  void converse(Visitor& visitor) noexcept;
  void answer_all(Visitor& visitor);
  // False: that was the last answer.
  bool answer_next(Visitor& visitor, std::chrono::milliseconds until_asked);
  // False: nobody takes it any more.
  bool send_body(Answer& answer, Connection& connection) const;
  Answer answer_ticket(std::string_view ticket, const Connection& connection);
  Answer answer_head(const RequestHead& head, Visitor& visitor, bool& keeps_alive);
  bool is_our_host(std::string_view host) const;
  // What is asked, if whoever asks may: none otherwise.
  std::optional<std::string_view> admitted_path(const RequestHead& head) const;

  Handler& handler_;
  const ServerOptions options_;
  const UniqueFd listening_;
  const UniqueFd stop_;
  const uint16_t port_;
  const pid_t process_;  // whose threads they are
  TicketBooth tickets_;
  std::unique_ptr<Crew> crew_ = std::make_unique<Crew>();
};

}  // namespace ashlar::http
