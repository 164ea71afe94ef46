// A Redis server of a test's own: in a folder of its own, at a Unix socket, keeping nothing. It is
// ended with the test, by its id.
#pragma once

#include <sys/types.h>

#include <string>

namespace ashlar::symm {

class RedisServer {
 public:
  // Whether redis-server is installed here.
  static bool is_installed();

  RedisServer();
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  const std::string& socket_path() const { return socket_path_; }
  // Starts it, again after stop; whoever connects has to wait for it.
  void start();
  void stop();
  // Stopped in the middle of whatever it does, as SIGSTOP does it; it goes on with resume.
  void suspend();
  void resume();

 private:
  std::string folder_;
  std::string socket_path_;
  pid_t pid_ = -1;
};

}  // namespace ashlar::symm
