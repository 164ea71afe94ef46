// SPDX-License-Identifier: Apache-2.0
//
// Implemented with fork, socketpair, kill and waitpid.
#include "mp/child_process.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "base/fd_passing.h"

namespace ashlar {
namespace {

constexpr std::chrono::seconds kTestTimeout{30};

}  // namespace

// Tests must fork before they start a thread: a child of a threaded process may inherit locks that
// no thread will release.
ChildProcess::ChildProcess(const std::function<int(int socket_fd)>& body) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  socket_.reset(ends[0]);
  pid_ = ::fork();
  EXPECT_GE(pid_, 0);
  if (pid_ == 0) {
    socket_.reset();
    ::_exit(body(ends[1]));
  }
  ::close(ends[1]);
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) kill();
}

void ChildProcess::kill() {
  if (pid_ <= 0) {  // kill(-1) would signal every process
    ADD_FAILURE() << "the child has already exited";
    return;
  }
  ::kill(pid_, SIGKILL);
  wait();
}

void ChildProcess::resume() { EXPECT_TRUE(pid_ > 0 && ::kill(pid_, SIGCONT) == 0); }

int ChildProcess::wait() {
  int status = 0;
  if (pid_ <= 0) {  // waitpid(-1) would wait for any child
    ADD_FAILURE() << "the child has already exited";
    return -1;
  }
  EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool notify(int socket_fd) {
  return send_message(socket_fd, std::array<uint8_t, 1>{1}, -1, kTestTimeout).ok();
}

bool wait_for_notification(int socket_fd) {
  std::array<uint8_t, 1> byte{};
  return receive_message(socket_fd, byte, kTestTimeout).ok();
}

}  // namespace ashlar
