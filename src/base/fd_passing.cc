// Unix sockets: listen, connect, and SCM_RIGHTS.
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

// An abstract name starts with a zero byte and is not terminated.
AbstractAddress abstract_address(std::string_view name) {
  AbstractAddress made;
  ASHLAR_CHECK(name.size() <= 100);
  made.address.sun_family = AF_UNIX;
  std::memcpy(made.address.sun_path + 1, name.data(), name.size());
  made.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return made;
}

Result<UniqueFd> new_socket() {
  UniqueFd made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!made.valid()) return system_fault("socket", "cannot make a local socket");
  return made;
}

// Waits until the socket is ready for `events`.
Status wait_ready(int socket_fd, short events, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd waiting{socket_fd, events, 0};
    const int ready = ::poll(&waiting, 1, std::max<int>(0, static_cast<int>(left.count())));
    if (ready > 0) return {};
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return system_fault("poll", "cannot wait for the other process");
    return Status::device_fault(
        "poll", ETIMEDOUT,
        text("the other process did not answer within ", timeout.count(), " ms"));
  }
}

// Every descriptor that came with the message, each with an owner.
std::vector<UniqueFd> take_descriptors(msghdr& message) {
  std::vector<UniqueFd> taken;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      taken.emplace_back(fd);
    }
  }
  return taken;
}

}  // namespace

Result<UniqueFd> listen_abstract(std::string_view name) {
  Result<UniqueFd> made = new_socket();
  if (!made.ok()) return made;
  const AbstractAddress at = abstract_address(name);
  const auto* address = reinterpret_cast<const sockaddr*>(&at.address);
  if (::bind(made->get(), address, at.length) != 0) {
    return system_fault("bind", text("cannot take the local address ", name));
  }
  if (::listen(made->get(), SOMAXCONN) != 0) return system_fault("listen", "cannot listen");
  return made;
}

Result<UniqueFd> connect_abstract(std::string_view name, std::chrono::milliseconds timeout) {
  Result<UniqueFd> made = new_socket();
  if (!made.ok()) return made;
  // A listener that accepts nobody would keep us waiting otherwise.
  const timeval limit{timeout.count() / 1000, timeout.count() % 1000 * 1000};
  ::setsockopt(made->get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  const AbstractAddress at = abstract_address(name);
  const auto* address = reinterpret_cast<const sockaddr*>(&at.address);
  if (::connect(made->get(), address, at.length) != 0) {
    return system_fault("connect", "nobody listens at the handle's address");
  }
  return made;
}

Result<UniqueFd> accept_or_stop(int listening_fd, int stop_fd) {
  for (;;) {
    pollfd waiting[2] = {{listening_fd, POLLIN, 0}, {stop_fd, POLLIN, 0}};
    if (::poll(waiting, 2, -1) < 0 && errno != EINTR) return system_fault("poll", "cannot wait");
    if (waiting[1].revents != 0) return UniqueFd();
    if (waiting[0].revents == 0) continue;
    UniqueFd accepted(::accept4(listening_fd, nullptr, nullptr, SOCK_CLOEXEC));
    if (accepted.valid()) return accepted;
    if (errno != EINTR && errno != ECONNABORTED) return system_fault("accept", "cannot accept");
  }
}

Result<PeerCredentials> peer_credentials(int socket_fd) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (::getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return system_fault("getsockopt", "cannot tell who is at the other end");
  }
  return PeerCredentials{credentials.pid, credentials.uid};
}

Status send_message(int socket_fd, std::span<const uint8_t> bytes, int attached_fd,
                    std::chrono::milliseconds timeout) {
  iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (attached_fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &attached_fd, sizeof(int));
  }
  if (Status ready = wait_ready(socket_fd, POLLOUT, timeout); !ready.ok()) return ready;
  const ssize_t sent = ::sendmsg(socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(bytes.size())) return system_fault("sendmsg", "cannot send");
  return {};
}

Result<ReceivedMessage> receive_message(int socket_fd, std::span<uint8_t> buffer,
                                        std::chrono::milliseconds timeout) {
  iovec part{buffer.data(), buffer.size()};
  // Room for more than the one we want: what arrives must be closed, not lost.
  alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (Status ready = wait_ready(socket_fd, POLLIN, timeout); !ready.ok()) return ready;
  const ssize_t got = ::recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0) return system_fault("recvmsg", "cannot receive");

  std::vector<UniqueFd> attached = take_descriptors(message);
  if (got == 0) return Status::format("the other process closed without an answer");
  // A cut control message may have dropped descriptors we would otherwise believe in.
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || attached.size() > 1) {
    return Status::format("the other process sent more than was agreed");
  }
  ReceivedMessage received;
  received.bytes = static_cast<size_t>(got);
  if (!attached.empty()) received.fd = std::move(attached.front());
  return received;
}

}  // namespace ashlar
