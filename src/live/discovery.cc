// SPDX-License-Identifier: Apache-2.0
//
// Reads /proc/net/unix, connects to each socket, and identifies its process with SO_PEERCRED.
#include "live/discovery.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <optional>

#include "base/fd_passing.h"
#include "base/system_info.h"
#include "base/text.h"
#include "http/tokens.h"

namespace ashlar::live {
namespace {

// Returns whether the peer exists and belongs to the user of this process (or to any user if this
// process runs as root). Other users may listen under a name with kSocketPrefix, and a forked child
// may still have the socket of a process that has exited.
bool is_trustworthy(const PeerCredentials& peer) {
  const uid_t own = ::geteuid();
  if (peer.uid != own && own != 0) return false;
  return peer.pid > 0 && (::kill(peer.pid, 0) == 0 || errno == EPERM);
}

Result<std::vector<std::string>> list_socket_names() {
  const Result<std::string> lines = read_system_file("/proc/net/unix");
  if (!lines.ok()) return lines.status();
  return socket_names_in(*lines);
}

// Connects to the process that listens under `name`. Returns nullopt if no process or an
// untrustworthy process listens, or if the backlog of the socket is full. Does not wait, because an
// untrustworthy process could keep its backlog full.
std::optional<MonitoredProcess> try_connect(const std::string& name) {
  Result<UniqueFd> socket =
      connect_abstract(name, std::chrono::milliseconds(0), LocalSocketType::kStream);
  if (!socket.ok()) return std::nullopt;
  const Result<PeerCredentials> peer = peer_credentials(socket->get());
  if (!peer.ok() || !is_trustworthy(*peer)) return std::nullopt;
  return MonitoredProcess{peer->pid, *std::move(socket)};
}

}  // namespace

Result<std::string> generate_socket_name() {
  const Result<std::string> random = http::generate_token();
  if (!random.ok()) return random.status();
  return text(kSocketPrefix, ::getpid(), ".", *random);
}

// Example of a line: "0000000000000000: 00000002 00000000 00010000 0001 01 12345
// @ashlar-live.77.0123". Only listening (flag 10000) stream sockets (type 1) are servers.
std::vector<std::string> socket_names_in(std::string_view lines) {
  constexpr std::string_view kListeningStream = " 00010000 0001 ";
  std::vector<std::string> names;
  while (!lines.empty()) {
    const std::string_view line = take_line(lines);
    const size_t at = line.rfind(" @");
    if (at == std::string_view::npos || line.find(kListeningStream) > at) continue;
    const std::string_view name = line.substr(at + 2);
    if (name.starts_with(kSocketPrefix) && name.size() <= 100) names.emplace_back(name);
  }
  return names;
}

Result<std::vector<MonitoredProcess>> find_monitored_processes() {
  const Result<std::vector<std::string>> names = list_socket_names();
  if (!names.ok()) return names.status();
  std::map<pid_t, UniqueFd> found;
  for (const std::string& name : *names) {
    if (std::optional<MonitoredProcess> each = try_connect(name)) {
      found.try_emplace(each->pid, std::move(each->socket));
    }
  }
  std::vector<MonitoredProcess> all;
  for (auto& [pid, socket] : found) all.push_back({pid, std::move(socket)});
  return all;
}

Result<MonitoredProcess> connect_to_monitored_process(pid_t pid) {
  if (pid <= 0) return Status::invalid_argument(text(pid, " is not a process id"));
  Result<std::vector<std::string>> names = list_socket_names();
  if (!names.ok()) return names.status();
  // Tries the names with this pid first, then the other names: a process in a container has another
  // pid inside the container.
  const std::string name_prefix = text(kSocketPrefix, pid, ".");
  std::stable_partition(names->begin(), names->end(),
                        [&](const std::string& name) { return name.starts_with(name_prefix); });
  for (const std::string& name : *names) {
    std::optional<MonitoredProcess> each = try_connect(name);
    if (each && each->pid == pid) return *std::move(each);
  }
  if (::kill(pid, 0) != 0 && errno == ESRCH) {
    return Status::invalid_argument(
        text("there is no process ", pid, "; ashlar top lists the monitored ones"));
  }
  return Status::invalid_argument(text("process ", pid,
                                       " is not monitored, or belongs to another user: start it "
                                       "with ASHLAR_LIVE=on, or create an ashlar::LiveServer"));
}

}  // namespace ashlar::live
