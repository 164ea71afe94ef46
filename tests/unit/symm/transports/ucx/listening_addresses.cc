// SPDX-License-Identifier: Apache-2.0
//
// Queries all descriptors of the process. The tables in /proc/net list the same sockets.
#include "unit/symm/transports/ucx/listening_addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <filesystem>

namespace ashlar::symm {

std::vector<std::string> listening_addresses() {
  std::vector<std::string> addresses;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(each.path().filename().string());
    int is_listening = 0;
    socklen_t bytes = sizeof(is_listening);
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &bytes) != 0) continue;
    sockaddr_storage address{};
    bytes = sizeof(address);
    if (is_listening == 0 ||
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
      continue;
    }
    std::array<char, INET6_ADDRSTRLEN> name{};
    if (address.ss_family == AF_INET) {
      const auto* ip = reinterpret_cast<const sockaddr_in*>(&address);
      ::inet_ntop(AF_INET, &ip->sin_addr, name.data(), name.size());
    } else if (address.ss_family == AF_INET6) {
      const auto* ip = reinterpret_cast<const sockaddr_in6*>(&address);
      ::inet_ntop(AF_INET6, &ip->sin6_addr, name.data(), name.size());
    } else {
      continue;
    }
    addresses.emplace_back(name.data());
  }
  return addresses;
}

}  // namespace ashlar::symm
