// SPDX-License-Identifier: Apache-2.0
//
// The server of a TCP store: one thread that reads requests from all connections with epoll(7),
// performs them on a StoreService, and writes the responses.
//
// Clients are untrusted until they have sent the token: their messages are bounded by
// kMaxHelloBytes, their number by kMaxUnauthenticated, and their time by kMessageTimeout.
// Afterwards, the size of requests and the sum of all buffers are bounded, and a client that does
// not complete a message in time is disconnected. A client that violates the protocol is
// disconnected.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "ashlar/tcp_store.h"
#include "ashlar/unique_fd.h"
#include "base/mutex.h"
#include "symm/stores/tcp/store_service.h"
#include "symm/stores/tcp/tcp_socket.h"

namespace ashlar::symm {

class TcpServer final : public TcpStoreServer {
 public:
  using Time = StoreService::Time;

  // The maximum number of connections that have not sent the token. A further one replaces the
  // oldest.
  static constexpr size_t kMaxUnauthenticated = 64;
  // How long a client may take to send a message after its first byte, to send its hello, and to
  // read a response.
  static constexpr std::chrono::seconds kMessageTimeout{10};
  // Bound on the sum of the sizes of incomplete requests and unsent responses.
  static constexpr size_t kMaxBufferBytes = size_t{64} << 20;

  static Result<std::shared_ptr<TcpStoreServer>> start(const TcpStoreServerOptions& options);

  TcpServer(const TcpStoreServerOptions& options, TcpListener listener, UniqueFd epoll,
            UniqueFd stop);
  ~TcpServer() override;

  uint16_t port() const override { return listener_.port; }
  bool wait_for_disconnects(size_t remaining, Deadline deadline) override ASHLAR_EXCLUDES(mutex_);

 private:
  // Exactly one of these holds: the client may send (no response is pending), `output` is being
  // sent, or a kWait is pending.
  struct Connection {
    uint64_t id = 0;
    UniqueFd socket{};
    bool is_authenticated = false;
    std::string input{};   // an incomplete request
    std::string output{};  // an unsent response
    size_t sent_bytes = 0;
    bool is_output_watched = false;  // epoll reports when the socket accepts more output
    bool is_waiting = false;
    uint64_t waits_for_version = 0;  // the wait ends when the version differs
    Time timer{};                    // key in timers_; Time{} if there is none
  };
  using Connections = std::map<uint64_t, Connection>;

  void run() noexcept;
  bool step();
  void accept_all(Time now);
  void add_connection(UniqueFd socket, Time now);
  void evict_unauthenticated();
  // These return false if the connection is to be closed.
  bool on_ready(Connection& connection, uint32_t events, Time now);
  bool receive(Connection& connection, Time now);
  bool handle_input(Connection& connection, Time now);
  bool handle(Connection& connection, const StoreRequest& request, Time now);
  bool authenticate(Connection& connection, const StoreRequest& request, Time now);
  bool send(Connection& connection, const StoreResponse& response, Time now);
  bool flush(Connection& connection, Time now);
  void finish_waits(Time now);
  void run_timers(Time now);
  void set_timer(Connection& connection, Time at);
  bool watch_output(Connection& connection, bool is_wanted);
  void close(uint64_t id) ASHLAR_EXCLUDES(mutex_);
  int poll_timeout_ms(Time now) const;

  const std::string token_;
  const size_t max_connections_;
  const TcpListener listener_;
  const UniqueFd epoll_;
  const UniqueFd stop_;  // an eventfd
  // Used by the server's thread only.
  StoreService service_;
  Connections connections_;
  std::set<std::pair<Time, uint64_t>> timers_;
  std::set<uint64_t> unauthenticated_;  // connections without a token; the lowest id is the oldest
  std::set<uint64_t> waiting_;
  size_t buffer_bytes_ = 0;
  uint64_t next_id_ = 0;

  Mutex mutex_;
  std::condition_variable disconnected_;
  size_t connection_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace ashlar::symm
