// SPDX-License-Identifier: Apache-2.0
//
// A second process for tests that cross processes: it runs a function with one end of a socket and
// ends with the function's answer; the test holds the other end, and may kill it at any moment.
#pragma once

#include <sys/types.h>

#include <functional>

#include "ashlar/unique_fd.h"

namespace ashlar {

class ChildProcess {
 public:
  // `body(socket)` runs in the child; its result is the child's exit status.
  explicit ChildProcess(const std::function<int(int socket_fd)>& body);
  // Kills the child if it still runs.
  ~ChildProcess();

  int socket_fd() const { return socket_.get(); }
  // Ends it as `kill -9` does, and waits until it is gone.
  void kill();
  // After a SIGSTOP.
  void go_on();
  // Waits for it to end by itself: its exit status, or 128 + the signal that ended it.
  int wait();

 private:
  UniqueFd socket_;
  pid_t pid_ = -1;
};

// One byte, as a sign to the other side to go on. False: the other side is gone or too slow.
bool tell(int socket_fd);
bool hear(int socket_fd);

}  // namespace ashlar
