// SPDX-License-Identifier: Apache-2.0
//
// A Redis server of a test's own: in a folder of its own, at a Unix socket, and at a port of this
// machine if asked for, keeping nothing. It is ended with the test, by its id.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace ashlar::symm {

class RedisServer {
 public:
  // Whether redis-server is installed here.
  static bool is_installed();
  // A port of this machine that nobody has, for now.
  static uint16_t free_port();

  struct Options {
    uint16_t port = 0;                  // 0: none
    std::string password{};             // empty: none is asked for
    std::string address = "127.0.0.1";  // where the port is
    std::string network{};              // the network namespace, as a file; empty: this one
  };
  RedisServer() : RedisServer(Options()) {}
  explicit RedisServer(const Options& options);
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  const std::string& socket_path() const { return socket_path_; }
  // For whoever ends it from another process; stop() is to follow here.
  pid_t pid() const { return pid_; }
  // Names of keys that will still be there after so long.
  std::string keys_that_outlive(std::chrono::milliseconds time) const;
  // Starts it, again after stop; whoever connects has to wait for it.
  void start();
  void stop();
  // Stopped in the middle of whatever it does, as SIGSTOP does it; it goes on with resume.
  void suspend();
  void resume();

 private:
  const Options options_;
  std::string folder_;
  std::string socket_path_;
  pid_t pid_ = -1;
};

}  // namespace ashlar::symm
