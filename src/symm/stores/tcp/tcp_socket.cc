// SPDX-License-Identifier: Apache-2.0
//
// Implements sockets with getaddrinfo(3) and poll(2).
#include "symm/stores/tcp/tcp_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/text.h"
#include "symm/stores/tcp/store_message.h"

namespace ashlar::symm {
namespace {

struct AddressDeleter {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, AddressDeleter>;

Result<Addresses> resolve(const TcpAddress& address, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* list = nullptr;
  const int code =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  if (code == 0) return Addresses(list);
  return Status::device_fault("getaddrinfo", code,
                              text("cannot resolve ", address.host, ": ", ::gai_strerror(code)));
}

Status socket_error(const char* call, const TcpAddress& address) {
  return Status::device_fault(
      call, errno, text(call, " failed for ", address.to_string(), ": ", std::strerror(errno)));
}

// Waits until the socket is ready for `events`, or has failed.
Status wait_until_ready(int socket_fd, short events, Deadline deadline) {
  pollfd polled{socket_fd, events, 0};
  for (;;) {
    const int ready = ::poll(&polled, 1, deadline.poll_timeout_ms());
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) {
      return Status::device_fault("poll", errno, text("poll failed: ", std::strerror(errno)));
    }
    if (deadline.has_passed()) return Status::timeout("the deadline passed");
  }
}

void disable_delays(int socket_fd) {
  const int yes = 1;
  ::setsockopt(socket_fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

Result<UniqueFd> connect_to(const addrinfo& target, const TcpAddress& address, Deadline deadline) {
  UniqueFd socket(::socket(target.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return socket_error("socket", address);
  if (::connect(socket.get(), target.ai_addr, target.ai_addrlen) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return socket_error("connect", address);
    if (Status ready = wait_until_ready(socket.get(), POLLOUT, deadline); !ready.ok()) return ready;
    int error = 0;
    socklen_t bytes = sizeof(error);
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    errno = error;
    if (error != 0) return socket_error("connect", address);
  }
  disable_delays(socket.get());
  return socket;
}

// Appends up to `wanted` bytes to `bytes`.
Status receive_some(int socket_fd, size_t wanted, std::string& bytes, Deadline deadline) {
  char buffer[16384];
  for (;;) {
    const ssize_t got = ::recv(socket_fd, buffer, std::min(wanted, sizeof(buffer)), 0);
    if (got > 0) {
      bytes.append(buffer, static_cast<size_t>(got));
      return {};
    }
    if (got == 0) return Status::device_fault("recv", 0, "the server closed the connection");
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      return Status::device_fault("recv", errno, text("recv failed: ", std::strerror(errno)));
    }
    if (Status ready = wait_until_ready(socket_fd, POLLIN, deadline); !ready.ok()) return ready;
  }
}

}  // namespace

std::string TcpAddress::to_string() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return is_ipv6 ? text('[', host, "]:", port) : text(host, ':', port);
}

Result<TcpListener> listen_tcp(const TcpAddress& address) {
  const Result<Addresses> found = resolve(address, AI_PASSIVE);
  if (!found.ok()) return found.status();
  const addrinfo& target = **found;
  TcpListener listener;
  listener.socket.reset(::socket(target.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.socket.valid()) return socket_error("socket", address);
  const int yes = 1;  // the port can be reused although old connections are in TIME_WAIT
  ::setsockopt(listener.socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (::bind(listener.socket.get(), target.ai_addr, target.ai_addrlen) != 0) {
    return socket_error("bind", address);
  }
  if (::listen(listener.socket.get(), SOMAXCONN) != 0) return socket_error("listen", address);
  sockaddr_storage own{};
  socklen_t bytes = sizeof(own);
  if (::getsockname(listener.socket.get(), reinterpret_cast<sockaddr*>(&own), &bytes) != 0) {
    return socket_error("getsockname", address);
  }
  listener.port =
      ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&own)->sin6_port
                                      : reinterpret_cast<const sockaddr_in*>(&own)->sin_port);
  return listener;
}

Result<UniqueFd> connect_tcp(const TcpAddress& address, Deadline deadline) {
  const Result<Addresses> found = resolve(address, 0);
  if (!found.ok()) return found.status();
  Result<UniqueFd> socket = Status::timeout("no address");
  for (const addrinfo* each = found->get(); each != nullptr; each = each->ai_next) {
    socket = connect_to(*each, address, deadline);
    if (socket.ok()) break;
  }
  return socket;
}

Status send_all(int socket_fd, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      if (Status ready = wait_until_ready(socket_fd, POLLOUT, deadline); !ready.ok()) return ready;
    } else if (errno != EINTR) {
      return Status::device_fault("send", errno, text("send failed: ", std::strerror(errno)));
    }
  }
  return {};
}

Result<std::string> receive_frame(int socket_fd, size_t max_bytes, Deadline deadline) {
  std::string header;
  while (header.size() < kFrameHeaderBytes) {
    const size_t wanted = kFrameHeaderBytes - header.size();
    if (Status got = receive_some(socket_fd, wanted, header, deadline); !got.ok()) return got;
  }
  const size_t wanted = body_bytes(header);
  if (wanted > max_bytes) {
    return Status::format(
        text("a message of ", wanted, " bytes: expected at most ", max_bytes, " from the server"));
  }
  std::string body;
  while (body.size() < wanted) {
    if (Status got = receive_some(socket_fd, wanted - body.size(), body, deadline); !got.ok()) {
      return got;
    }
  }
  return body;
}

}  // namespace ashlar::symm
