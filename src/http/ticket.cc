// SPDX-License-Identifier: Apache-2.0
//
// /proc/net/tcp says whose a socket is: loopback has no SO_PEERCRED.
#include "http/ticket.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "base/system_info.h"
#include "base/text.h"
#include "http/token.h"

namespace ashlar::http {
namespace {

template <typename Number>
std::optional<Number> number_in(std::string_view text, int base) {
  Number value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value, base);
  if (text.empty() || error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

// The next word of a line, which is taken off its front.
std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

// "0100007F:1F90": an address as the machine has it in memory, and a port.
std::optional<uint16_t> loopback_port(std::string_view place) {
  const size_t colon = std::min(place.find(':'), place.size());
  const auto address = number_in<uint32_t>(place.substr(0, colon), 16);
  if (colon == place.size() || address != htonl(INADDR_LOOPBACK)) return std::nullopt;
  return number_in<uint16_t>(place.substr(colon + 1), 16);
}

std::optional<uint16_t> port_of(int socket_fd, decltype(&::getsockname) end) {
  sockaddr_in address{};
  socklen_t bytes = sizeof(address);
  if (end(socket_fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return std::nullopt;
  if (address.sin_family != AF_INET) return std::nullopt;
  return ntohs(address.sin_port);
}

}  // namespace

Result<std::string> TicketBooth::issue(Time now) {
  Result<std::string> drawn = draw_token();
  if (!drawn.ok()) return drawn;
  MutexLock lock(mutex_);
  has_issued_ = true;
  ticket_ = *drawn;
  valid_until_ = now + kValid;
  return drawn;
}

bool TicketBooth::has_issued() const {
  MutexLock lock(mutex_);
  return has_issued_;
}

bool TicketBooth::redeem(std::string_view ticket, Time now) {
  MutexLock lock(mutex_);
  const bool is_good = !ticket_.empty() && now < valid_until_ && same_token(ticket, ticket_);
  if (is_good) ticket_.clear();
  return is_good;
}

// "  1: 0100007F:A1B2 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000 0 4711 ...":
// the number of the line, both ends, state, queues, timer, retransmissions, user, timeout, inode.
// Where no process has the socket (any more), the inode is 0, and the user, too, which means root
// elsewhere: so in TIME_WAIT (state 06), in NEW_SYN_RECV (0C), and in the other states of an end
// that was closed. One that was only shut for writing is still somebody's.
std::optional<uid_t> peer_user_in(std::string_view lines, const LoopbackPorts& ports) {
  constexpr int kWordsBetween = 4;
  while (!lines.empty()) {
    std::string_view line = take_line(lines);
    take_word(line);
    const bool is_peers = loopback_port(take_word(line)) == ports.peer;
    const bool leads_here = loopback_port(take_word(line)) == ports.own;
    if (!is_peers || !leads_here) continue;
    for (int i = 0; i < kWordsBetween; ++i) take_word(line);
    const std::optional<uid_t> user = number_in<uid_t>(take_word(line), 10);
    take_word(line);
    if (number_in<uint64_t>(take_word(line), 10).value_or(0) != 0) return user;
  }
  return std::nullopt;
}

bool is_own_users(int socket_fd) {
  const std::optional<uint16_t> own = port_of(socket_fd, ::getsockname);
  const std::optional<uint16_t> peer = port_of(socket_fd, ::getpeername);
  const Result<std::string> lines = read_system_file("/proc/net/tcp");
  if (!own || !peer || !lines.ok()) return false;
  return peer_user_in(*lines, {.own = *own, .peer = *peer}) == ::geteuid();
}

}  // namespace ashlar::http
