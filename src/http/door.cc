// SPDX-License-Identifier: Apache-2.0
//
// bind(2) and listen(2); SO_PEERCRED for who is there.
#include "http/door.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fd_passing.h"
#include "base/text.h"

namespace ashlar::http {
namespace {

Status door_failed(std::string_view call, std::string_view what) {
  return Status::device_fault(call, errno, text(what, ": ", std::strerror(errno)));
}

}  // namespace

Result<Door> open_loopback(uint16_t port) {
  Door door;
  door.listening = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!door.listening.valid()) return door_failed("socket", "no socket to listen on");
  const int yes = 1;
  ::setsockopt(door.listening.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(door.listening.get(), generic, sizeof(address)) != 0) {
    return door_failed("bind", text("port ", port, " of 127.0.0.1 cannot be had"));
  }
  if (::listen(door.listening.get(), 16) != 0) return door_failed("listen", "nobody can connect");
  socklen_t bytes = sizeof(address);
  if (::getsockname(door.listening.get(), generic, &bytes) != 0) {
    return door_failed("getsockname", "the port is not known");
  }
  door.port = ntohs(address.sin_port);
  return door;
}

Result<Door> open_local(std::string_view name) {
  Result<UniqueFd> listening = listen_abstract(name, LocalSocket::kStream);
  if (!listening.ok()) return listening.status();
  // Whoever connects and leaves at once must not keep the thread that accepts.
  if (::fcntl(listening->get(), F_SETFL, O_NONBLOCK) != 0) {
    return door_failed("fcntl", "the socket cannot be made not to block");
  }
  Door door;
  door.listening = *std::move(listening);
  return door;
}

bool is_own_user(int socket_fd) {
  const Result<PeerCredentials> peer = peer_credentials(socket_fd);
  return peer.ok() && (peer->uid == ::geteuid() || peer->uid == 0);
}

}  // namespace ashlar::http
