// SPDX-License-Identifier: Apache-2.0
//
// Discovery of processes with live monitoring: they listen on Unix sockets with abstract names,
// which the system lists. The kernel identifies the owner of a socket; the name is only a hint. A
// killed process leaves nothing behind. Thread safe.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "ashlar/status.h"
#include "ashlar/unique_fd.h"

namespace ashlar::live {

// The prefix of all socket names. A random suffix keeps other users from claiming a name first.
inline constexpr std::string_view kSocketPrefix = "ashlar-live.";

// "ashlar-live.PID.RANDOM". kDeviceFault: the system has no random bytes.
Result<std::string> generate_socket_name();

// The socket names in the lines of /proc/net/unix. Ignores malformed lines.
std::vector<std::string> socket_names_in(std::string_view lines);

// A monitored process of our user (for root: of any user), and a connection to it.
struct MonitoredProcess {
  pid_t pid = 0;  // in our pid namespace
  UniqueFd socket{};
};

// All monitored processes by pid, with one socket each. kDeviceFault: the system lists no sockets.
Result<std::vector<MonitoredProcess>> find_monitored_processes();

// Connects to one process. Like find_monitored_processes, does not wait for the process.
// kInvalidArgument: there is no such process, it belongs to another user, or is not monitored; the
// message says which and what to do.
Result<MonitoredProcess> connect_to_monitored_process(pid_t pid);

}  // namespace ashlar::live
