// SPDX-License-Identifier: Apache-2.0
//
// A forked child process for multi-process tests. It runs a function with one end of a socket pair
// and exits with the function's result. The test owns the other end and may kill the child.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>

#include "ashlar/unique_fd.h"

namespace ashlar {

inline constexpr std::chrono::seconds kTestTimeout{30};

class ChildProcess {
 public:
  // Forks the child, which runs `body(socket)` and exits with its result.
  explicit ChildProcess(const std::function<int(int socket_fd)>& body);
  // Kills the child unless the test has waited for it.
  ~ChildProcess();

  int socket_fd() const { return socket_.get(); }
  pid_t pid() const { return pid_; }
  // Sends SIGKILL and waits for the child to exit.
  void kill();
  // Sends SIGCONT to a stopped child.
  void resume();
  // Waits for the child to exit. Returns its exit status, or 128 + the signal that ended it.
  int wait();

 private:
  UniqueFd socket_;
  pid_t pid_ = -1;
};

// These functions send and receive one byte, to synchronize the two sides. They return false on
// timeout or if the other side has closed its socket.
bool notify(int socket_fd);
bool wait_for_notification(int socket_fd);

// These functions send and receive the handle of a share. An empty handle means a timeout or an
// error.
bool send_handle(int socket_fd, const std::string& handle);
std::string receive_handle(int socket_fd);

}  // namespace ashlar
