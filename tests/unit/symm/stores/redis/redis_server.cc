// SPDX-License-Identifier: Apache-2.0
//
// Implements the server with fork, exec, kill and waitpid.
#include "unit/symm/stores/redis/redis_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "ashlar/unique_fd.h"

namespace ashlar::symm {
namespace {

constexpr const char* kProgram = "/usr/bin/redis-server";

}  // namespace

bool RedisServer::is_installed() { return ::access(kProgram, X_OK) == 0; }

uint16_t RedisServer::free_port() {
  const UniqueFd tried(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  socklen_t bytes = sizeof(address);
  EXPECT_EQ(::bind(tried.get(), plain, bytes), 0);
  EXPECT_EQ(::getsockname(tried.get(), plain, &bytes), 0);
  return ntohs(address.sin_port);
}

RedisServer::RedisServer(const Options& options) : options_(options) {
  std::string folder = (std::filesystem::temp_directory_path() / "ashlar_redis_XXXXXX").string();
  EXPECT_NE(::mkdtemp(folder.data()), nullptr);
  folder_ = folder;
  socket_path_ = folder_ + "/socket";
  start();
}

RedisServer::~RedisServer() {
  stop();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void RedisServer::start() {
  if (pid_ > 0) return;
  const std::string log = folder_ + "/log";
  const std::string port = std::to_string(options_.port);
  pid_ = ::fork();
  EXPECT_GE(pid_, 0);
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // if the test is killed, the server is, too
  if (!options_.network.empty()) {
    const int space = ::open(options_.network.c_str(), O_RDONLY | O_CLOEXEC);
    if (::setns(space, CLONE_NEWNET) != 0) ::_exit(126);
  }
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  ::execl(kProgram, kProgram, "--port", port.c_str(), "--bind", options_.address.c_str(),
          "--requirepass", options_.password.c_str(), "--unixsocket", socket_path_.c_str(),
          "--save", "", "--appendonly", "no", "--dir", folder_.c_str(),
          static_cast<char*>(nullptr));
  ::_exit(127);
}

void RedisServer::stop() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  int status = 0;
  EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
  pid_ = -1;
}

// Uses the Redis protocol directly, so that the test harness needs no client library.
std::string RedisServer::keys_living_longer_than(std::chrono::milliseconds time) const {
  const std::string script =
      "EVAL \"local left = '' for _, key in ipairs(redis.call('KEYS', '*')) do "
      "local life = redis.call('PTTL', key) if life == -1 or life > " +
      std::to_string(time.count()) + " then left = left .. key .. ' ' end end return left\" 0\r\n";
  UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const timeval timeout{30, 0};
  ::setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  if (::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      ::write(client.get(), script.data(), script.size()) != static_cast<ssize_t>(script.size())) {
    return "cannot connect to the server";
  }
  // The reply is a line with "$" and the length of the keys, then the keys and CRLF.
  const std::unique_ptr<FILE, int (*)(FILE*)> reply(::fdopen(client.release(), "r"), ::fclose);
  char head[32] = {};
  size_t bytes = 0;
  if (std::fgets(head, sizeof(head), reply.get()) == nullptr ||
      std::sscanf(head, "$%zu", &bytes) != 1) {
    return "no reply";
  }
  std::string names(bytes, ' ');
  const bool is_complete = std::fread(names.data(), 1, bytes, reply.get()) == bytes;
  return is_complete ? names : "incomplete reply";
}

void RedisServer::suspend() { EXPECT_EQ(::kill(pid_, SIGSTOP), 0); }

void RedisServer::resume() { EXPECT_EQ(::kill(pid_, SIGCONT), 0); }

}  // namespace ashlar::symm
