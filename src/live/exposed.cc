// SPDX-License-Identifier: Apache-2.0
//
// /proc/net/unix, connect(2), and SO_PEERCRED for who is there.
#include "live/exposed.h"

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
#include "http/token.h"

namespace ashlar::live {
namespace {

// Another user may listen under such a name as well, and a child that was forked off a process that
// is gone may still have its socket.
bool is_trustworthy(const PeerCredentials& peer) {
  const uid_t own = ::geteuid();
  if (peer.uid != own && own != 0) return false;
  return peer.pid > 0 && (::kill(peer.pid, 0) == 0 || errno == EPERM);
}

Result<std::vector<std::string>> listed_names() {
  const Result<std::string> lines = read_system_file("/proc/net/unix");
  if (!lines.ok()) return lines.status();
  return socket_names_in(*lines);
}

// None: nobody is there any more, or nobody to be trusted. Nothing is waited for: the system
// connects without the other side's help, unless thousands wait there already, and whoever lets
// them wait could be anybody.
std::optional<Exposed> knock(const std::string& name) {
  Result<UniqueFd> socket =
      connect_abstract(name, std::chrono::milliseconds(0), LocalSocket::kStream);
  if (!socket.ok()) return std::nullopt;
  const Result<PeerCredentials> peer = peer_credentials(socket->get());
  if (!peer.ok() || !is_trustworthy(*peer)) return std::nullopt;
  return Exposed{peer->pid, *std::move(socket)};
}

}  // namespace

Result<std::string> draw_socket_name() {
  const Result<std::string> random = http::draw_token();
  if (!random.ok()) return random.status();
  return text(kSocketPrefix, ::getpid(), ".", *random);
}

// "0000000000000000: 00000002 00000000 00010000 0001 01 12345 @ashlar-live.77.0123": only what
// listens (flag 10000) for streams (type 1) is a server's.
std::vector<std::string> socket_names_in(std::string_view lines) {
  constexpr std::string_view kListens = " 00010000 0001 ";
  std::vector<std::string> names;
  while (!lines.empty()) {
    const std::string_view line = take_line(lines);
    const size_t at = line.rfind(" @");
    if (at == std::string_view::npos || line.find(kListens) > at) continue;
    const std::string_view name = line.substr(at + 2);
    if (name.starts_with(kSocketPrefix) && name.size() <= 100) names.emplace_back(name);
  }
  return names;
}

Result<std::vector<Exposed>> find_exposed() {
  const Result<std::vector<std::string>> names = listed_names();
  if (!names.ok()) return names.status();
  std::map<pid_t, UniqueFd> found;
  for (const std::string& name : *names) {
    if (std::optional<Exposed> each = knock(name)) {
      found.try_emplace(each->pid, std::move(each->socket));
    }
  }
  std::vector<Exposed> all;
  for (auto& [pid, socket] : found) all.push_back({pid, std::move(socket)});
  return all;
}

Result<Exposed> connect_to_exposed(pid_t pid) {
  if (pid <= 0) return Status::invalid_argument(text(pid, " is not the number of a process"));
  Result<std::vector<std::string>> names = listed_names();
  if (!names.ok()) return names.status();
  // The others, too: in a container, a process goes by another number than outside.
  const std::string likely = text(kSocketPrefix, pid, ".");
  std::stable_partition(names->begin(), names->end(),
                        [&](const std::string& name) { return name.starts_with(likely); });
  for (const std::string& name : *names) {
    std::optional<Exposed> each = knock(name);
    if (each && each->pid == pid) return *std::move(each);
  }
  if (::kill(pid, 0) != 0 && errno == ESRCH) {
    return Status::invalid_argument(text("there is no process ", pid,
                                         "; ashlar top lists those that can be "
                                         "watched"));
  }
  return Status::invalid_argument(text("process ", pid,
                                       " shows nothing, or not to this user: start it with "
                                       "ASHLAR_LIVE=on, or let it make an ashlar::LiveServer"));
}

}  // namespace ashlar::live
