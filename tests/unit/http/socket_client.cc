// SPDX-License-Identifier: Apache-2.0
//
// Implements the client with blocking calls on a plain socket.
#include "unit/http/socket_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace ashlar {

SocketClient::SocketClient(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
}

bool SocketClient::send(std::string bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.erase(0, static_cast<size_t>(sent));
  }
  return true;
}

void SocketClient::end_sending() { ::shutdown(socket_.get(), SHUT_WR); }

std::string SocketClient::read_all() {
  std::array<char, 65536> buffer{};
  std::string all = std::move(ahead_);
  ahead_.clear();
  for (ssize_t got = 1; got > 0;) {
    got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (got > 0) all.append(buffer.data(), static_cast<size_t>(got));
  }
  return all;
}

std::string SocketClient::read_response() {
  const auto end_of_head = [&] { return ahead_.find("\r\n\r\n"); };
  while (end_of_head() == std::string::npos) {
    const size_t before = ahead_.size();
    std::array<char, 4096> buffer{};
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (got > 0) ahead_.append(buffer.data(), static_cast<size_t>(got));
    if (ahead_.size() == before) return take(before);
  }
  const size_t head_bytes = end_of_head() + 4;
  const std::string field = "Content-Length: ";
  const size_t at = ahead_.find(field);
  const size_t body_bytes = at < head_bytes ? std::stoul(ahead_.substr(at + field.size(), 20)) : 0;
  return take(head_bytes + body_bytes);
}

std::string SocketClient::take(size_t count) {
  std::array<char, 65536> buffer{};
  while (ahead_.size() < count) {
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) break;
    ahead_.append(buffer.data(), static_cast<size_t>(got));
  }
  std::string bytes = ahead_.substr(0, count);
  ahead_.erase(0, bytes.size());
  return bytes;
}

int code_of(const std::string& response) {
  return response.starts_with("HTTP/1.1 ") ? std::atoi(response.c_str() + 9) : 0;
}

std::string body_of(const std::string& response) {
  const size_t end = response.find("\r\n\r\n");
  return end == std::string::npos ? "" : response.substr(end + 4);
}

}  // namespace ashlar
