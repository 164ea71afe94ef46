// SPDX-License-Identifier: Apache-2.0
//
// A Redis server for one test, in a temporary folder. It listens on a Unix socket and optionally on
// a port. It persists nothing. The destructor kills the server.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace ashlar::symm {

class RedisServer {
 public:
  // Returns whether redis-server is installed on this machine.
  static bool is_installed();
  // Returns a port that is currently unused.
  static uint16_t free_port();

  struct Options {
    uint16_t port = 0;                  // 0: none
    std::string password{};             // empty: no authentication
    std::string address = "127.0.0.1";  // the address to bind the port to
    std::string network{};              // path of the network namespace; empty: the current one
  };
  RedisServer() : RedisServer(Options()) {}
  explicit RedisServer(const Options& options);
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  const std::string& socket_path() const { return socket_path_; }
  // Returns the server's PID, for tests in which another process kills the server. Such tests must
  // call stop() afterwards to reap it.
  pid_t pid() const { return pid_; }
  // Returns the keys whose remaining time to live exceeds `time` or that never expire, separated by
  // spaces. Returns a description of the error if the server does not reply.
  std::string keys_living_longer_than(std::chrono::milliseconds time) const;
  // Starts the server; may be called again after stop(). Returns before the server accepts
  // connections.
  void start();
  void stop();
  // Sends SIGSTOP. resume() sends SIGCONT.
  void suspend();
  void resume();

 private:
  const Options options_;
  std::string folder_;
  std::string socket_path_;
  pid_t pid_ = -1;
};

}  // namespace ashlar::symm
