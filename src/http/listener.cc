// SPDX-License-Identifier: Apache-2.0
//
// Calls bind(2) and listen(2), and identifies the user of a peer by SO_PEERCRED or /proc/net/tcp.
#include "http/listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/fd_passing.h"
#include "base/system_info.h"
#include "base/text.h"

namespace ashlar::http {
namespace {

Status listen_error(std::string_view call, std::string_view what) {
  return Status::device_fault(call, errno, text(what, ": ", std::strerror(errno)));
}

template <typename Number>
std::optional<Number> parse_number(std::string_view text, int base) {
  Number value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value, base);
  if (text.empty() || error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

// Removes and returns the next word of a line.
std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

// Parses an address in memory byte order and a port, such as "0100007F:1F90". Returns the port if
// the address is 127.0.0.1.
std::optional<uint16_t> loopback_port(std::string_view address_and_port) {
  const size_t colon = std::min(address_and_port.find(':'), address_and_port.size());
  const auto address = parse_number<uint32_t>(address_and_port.substr(0, colon), 16);
  if (colon == address_and_port.size() || address != htonl(INADDR_LOOPBACK)) return std::nullopt;
  return parse_number<uint16_t>(address_and_port.substr(colon + 1), 16);
}

std::optional<uint16_t> port_of(int socket_fd, decltype(&::getsockname) get_address) {
  sockaddr_in address{};
  socklen_t bytes = sizeof(address);
  if (get_address(socket_fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0)
    return std::nullopt;
  if (address.sin_family != AF_INET) return std::nullopt;
  return ntohs(address.sin_port);
}

}  // namespace

Result<Listener> listen_loopback(uint16_t port) {
  Listener listener;
  listener.socket = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.socket.valid()) return listen_error("socket", "cannot create a socket");
  const int yes = 1;
  ::setsockopt(listener.socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.socket.get(), generic, sizeof(address)) != 0) {
    return listen_error("bind", text("cannot bind port ", port, " of 127.0.0.1"));
  }
  if (::listen(listener.socket.get(), 16) != 0) return listen_error("listen", "cannot listen");
  socklen_t bytes = sizeof(address);
  if (::getsockname(listener.socket.get(), generic, &bytes) != 0) {
    return listen_error("getsockname", "cannot read the port");
  }
  listener.port = ntohs(address.sin_port);
  return listener;
}

Result<Listener> listen_local(std::string_view name) {
  Result<UniqueFd> listening = listen_abstract(name, LocalSocketType::kStream);
  if (!listening.ok()) return listening.status();
  // The socket is non-blocking, so that accept(2) does not block if the client has disconnected.
  if (::fcntl(listening->get(), F_SETFL, O_NONBLOCK) != 0) {
    return listen_error("fcntl", "cannot make the socket non-blocking");
  }
  Listener listener;
  listener.socket = *std::move(listening);
  return listener;
}

bool is_local_peer_own_user(int socket_fd) {
  const Result<PeerCredentials> peer = peer_credentials(socket_fd);
  return peer.ok() && (peer->uid == ::geteuid() || peer->uid == 0);
}

// A line is "  1: 0100007F:A1B2 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000 0
// 4711 ...": number, local and remote end, state, queues, timer, retransmissions, user, timeout,
// inode. A socket without a process has inode 0 and user 0, which must not be mistaken for root.
// Examples are sockets in TIME_WAIT (06) or NEW_SYN_RECV (0C), and sockets that their process has
// closed. A socket that is only shut down for writing still has its process.
std::optional<uid_t> peer_user_in(std::string_view lines, const LoopbackPorts& ports) {
  constexpr int kWordsBeforeUser = 4;
  while (!lines.empty()) {
    std::string_view line = take_line(lines);
    take_word(line);
    const bool is_from_peer = loopback_port(take_word(line)) == ports.peer;
    const bool is_to_us = loopback_port(take_word(line)) == ports.own;
    if (!is_from_peer || !is_to_us) continue;
    for (int i = 0; i < kWordsBeforeUser; ++i) take_word(line);
    const std::optional<uid_t> user = parse_number<uid_t>(take_word(line), 10);
    take_word(line);
    if (parse_number<uint64_t>(take_word(line), 10).value_or(0) != 0) return user;
  }
  return std::nullopt;
}

bool is_loopback_peer_own_user(int socket_fd) {
  const std::optional<uint16_t> own = port_of(socket_fd, ::getsockname);
  const std::optional<uint16_t> peer = port_of(socket_fd, ::getpeername);
  const Result<std::string> lines = read_system_file("/proc/net/tcp");
  if (!own || !peer || !lines.ok()) return false;
  return peer_user_in(*lines, {.own = *own, .peer = *peer}) == ::geteuid();
}

}  // namespace ashlar::http
