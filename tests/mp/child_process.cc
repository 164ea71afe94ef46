// SPDX-License-Identifier: Apache-2.0
//
// Implements child processes with fork, socketpair, kill and waitpid.
#include "mp/child_process.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "base/fd_passing.h"

namespace ashlar {

// Except for tests of fork itself, a test must fork before it starts a thread: a child of a
// threaded process may inherit locks that no thread will release.
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

bool send_handle(int socket_fd, const std::string& handle) {
  const std::vector<uint8_t> bytes(handle.begin(), handle.end());
  return send_message(socket_fd, bytes, -1, kTestTimeout).ok();
}

std::string receive_handle(int socket_fd) {
  std::array<uint8_t, 512> bytes{};
  const Result<ReceivedMessage> got = receive_message(socket_fd, bytes, kTestTimeout);
  if (!got.ok()) return {};
  return {bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(got->bytes)};
}

}  // namespace ashlar
