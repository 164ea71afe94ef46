// SPDX-License-Identifier: Apache-2.0
//
// fork, socketpair, kill, wait.
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

constexpr std::chrono::seconds kPatience{30};

}  // namespace

// Forks: tests call this before they start any thread, since a child of a threaded process could
// find locks held for ever.
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
  if (pid_ <= 0) {  // to the system, -1 is every process there is
    ADD_FAILURE() << "the child is gone already";
    return;
  }
  ::kill(pid_, SIGKILL);
  wait();
}

void ChildProcess::go_on() { EXPECT_TRUE(pid_ > 0 && ::kill(pid_, SIGCONT) == 0); }

int ChildProcess::wait() {
  int status = 0;
  if (pid_ <= 0) {  // to the system, -1 is any child
    ADD_FAILURE() << "the child is gone already";
    return -1;
  }
  EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool tell(int socket_fd) {
  return send_message(socket_fd, std::array<uint8_t, 1>{1}, -1, kPatience).ok();
}

bool hear(int socket_fd) {
  std::array<uint8_t, 1> byte{};
  return receive_message(socket_fd, byte, kPatience).ok();
}

}  // namespace ashlar
