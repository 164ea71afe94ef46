// SPDX-License-Identifier: Apache-2.0
//
// Implements the functions on Unix sockets, with descriptors as SCM_RIGHTS messages.
#include "base/fd_passing.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/text.h"

namespace ashlar {
namespace {

Status system_fault(std::string_view call, std::string_view what) {
  const int code = errno;
  return Status::device_fault(call, code, text(what, ": ", std::strerror(code)));
}

struct AbstractAddress {
  sockaddr_un address{};
  socklen_t length = 0;
};

// Converts a name to a socket address. An abstract name starts with a zero byte and is not
// null-terminated.
AbstractAddress abstract_address(std::string_view name) {
  AbstractAddress made;
  ASHLAR_CHECK(name.size() <= 100);
  made.address.sun_family = AF_UNIX;
  std::memcpy(made.address.sun_path + 1, name.data(), name.size());
  made.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return made;
}

Result<UniqueFd> new_socket(LocalSocketType kind) {
  const int type = kind == LocalSocketType::kPackets ? SOCK_SEQPACKET : SOCK_STREAM;
  UniqueFd made(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (!made.valid()) return system_fault("socket", "cannot create a local socket");
  return made;
}

// Waits until the socket is ready for `events`.
Status wait_ready(int socket_fd, short events, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd polled{socket_fd, events, 0};
    const int ready = ::poll(&polled, 1, std::max<int>(0, static_cast<int>(left.count())));
    if (ready > 0) return {};
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return system_fault("poll", "cannot wait for the other process");
    return Status::device_fault(
        "poll", ETIMEDOUT,
        text("the other process did not respond within ", timeout.count(), " ms"));
  }
}

Status send_attached(int socket_fd, std::span<const uint8_t> bytes, std::span<const int> fds,
                     std::chrono::milliseconds timeout) {
  ASHLAR_CHECK(fds.size() <= kMaxAttachedFds);
  iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxAttachedFds * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  if (Status ready = wait_ready(socket_fd, POLLOUT, timeout); !ready.ok()) return ready;
  const ssize_t sent = ::sendmsg(socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(bytes.size())) return system_fault("sendmsg", "cannot send");
  return {};
}

// Takes ownership of all descriptors of a message.
std::vector<UniqueFd> take_descriptors(msghdr& message) {
  std::vector<UniqueFd> descriptors;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      descriptors.emplace_back(fd);
    }
  }
  return descriptors;
}

}  // namespace

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Result<UniqueFd> listen_abstract(std::string_view name, LocalSocketType kind) {
  Result<UniqueFd> made = new_socket(kind);
  if (!made.ok()) return made;
  const AbstractAddress socket_address = abstract_address(name);
  const auto* address = reinterpret_cast<const sockaddr*>(&socket_address.address);
  if (::bind(made->get(), address, socket_address.length) != 0) {
    return system_fault("bind", text("cannot bind the local address ", name));
  }
  if (::listen(made->get(), SOMAXCONN) != 0) return system_fault("listen", "cannot listen");
  return made;
}

Result<UniqueFd> connect_abstract(std::string_view name, std::chrono::milliseconds timeout,
                                  LocalSocketType kind) {
  Result<UniqueFd> made = new_socket(kind);
  if (!made.ok()) return made;
  // connect(2) blocks while the listener's queue is full. The limit is at least 1 ms, because a
  // SO_SNDTIMEO of 0 would mean no limit.
  const int64_t limit_ms = std::max<int64_t>(1, timeout.count());
  const timeval limit{limit_ms / 1000, limit_ms % 1000 * 1000};
  ::setsockopt(made->get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  const AbstractAddress socket_address = abstract_address(name);
  const auto* address = reinterpret_cast<const sockaddr*>(&socket_address.address);
  if (::connect(made->get(), address, socket_address.length) != 0) {
    return system_fault("connect", "no process listens at the handle's address");
  }
  return made;
}

Result<UniqueFd> accept_or_stop(int listening_fd, int stop_fd) {
  for (;;) {
    pollfd polled[2] = {{listening_fd, POLLIN, 0}, {stop_fd, POLLIN, 0}};
    if (::poll(polled, 2, -1) < 0 && errno != EINTR) return system_fault("poll", "cannot wait");
    if (polled[1].revents != 0) return UniqueFd();
    if (polled[0].revents == 0) continue;
    UniqueFd accepted(::accept4(listening_fd, nullptr, nullptr, SOCK_CLOEXEC));
    if (accepted.valid()) return accepted;
    if (errno != EINTR && errno != ECONNABORTED) return system_fault("accept", "cannot accept");
  }
}

bool is_readable_now(int fd) {
  pollfd polled{fd, POLLIN, 0};
  return ::poll(&polled, 1, 0) > 0;
}

Result<UniqueFd> accept_pending(int listening_fd) {
  UniqueFd accepted(::accept4(listening_fd, nullptr, nullptr, SOCK_CLOEXEC));
  if (!accepted.valid()) return system_fault("accept", "cannot accept");
  return accepted;
}

Result<PeerCredentials> peer_credentials(int socket_fd) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (::getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return system_fault("getsockopt", "cannot read the peer's credentials");
  }
  return PeerCredentials{credentials.uid, credentials.pid};
}

Status send_message(int socket_fd, std::span<const uint8_t> bytes, int attached_fd,
                    std::chrono::milliseconds timeout) {
  return send_attached(socket_fd, bytes, {&attached_fd, attached_fd >= 0 ? size_t{1} : 0}, timeout);
}

Status send_descriptors(int socket_fd, std::span<const uint8_t> bytes,
                        std::span<const UniqueFd> fds, std::chrono::milliseconds timeout) {
  std::vector<int> attached;
  for (const UniqueFd& fd : fds) attached.push_back(fd.get());
  return send_attached(socket_fd, bytes, attached, timeout);
}

Result<ReceivedMessage> receive_message(int socket_fd, std::span<uint8_t> buffer,
                                        std::chrono::milliseconds timeout) {
  Result<ReceivedDescriptors> got = receive_descriptors(socket_fd, buffer, 1, timeout);
  if (!got.ok()) return got.status();
  if (got->bytes == 0)
    return Status::format("the other process closed the connection without a response");
  ReceivedMessage received;
  received.bytes = got->bytes;
  if (!got->fds.empty()) received.fd = std::move(got->fds.front());
  return received;
}

Result<ReceivedDescriptors> receive_descriptors(int socket_fd, std::span<uint8_t> buffer,
                                                size_t max_fds, std::chrono::milliseconds timeout) {
  iovec part{buffer.data(), buffer.size()};
  // The buffer has room for the kernel's maximum, so that every received descriptor is closed on
  // error.
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxAttachedFds * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (Status ready = wait_ready(socket_fd, POLLIN, timeout); !ready.ok()) return ready;
  const ssize_t got = ::recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0) return system_fault("recvmsg", "cannot receive");

  ReceivedDescriptors received{static_cast<size_t>(got), take_descriptors(message)};
  if ((message.msg_flags & MSG_TRUNC) != 0 || received.fds.size() > max_fds) {
    return Status::format("the other process sent more data than the protocol allows");
  }
  // If MSG_CTRUNC is set, the kernel dropped some descriptors, although the buffer has room for all
  // of them. The descriptors that arrived are closed, because the message is incomplete.
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    received.fds.clear();
    return Status::device_fault("recvmsg", EMFILE,
                                "not all descriptors could be received: raise ulimit -n");
  }
  return received;
}

}  // namespace ashlar
