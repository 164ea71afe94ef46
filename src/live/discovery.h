// SPDX-License-Identifier: Apache-2.0
//
// Finds processes with live monitoring. They listen on Unix sockets with abstract names, which
// /proc/net/unix lists. The kernel identifies the process behind a socket; the pid in the socket's
// name is only a hint. A killed process leaves nothing behind. Thread safe.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "ashlar/status.h"
#include "ashlar/unique_fd.h"

namespace ashlar::live {

// The prefix of all socket names. A random suffix prevents other users from claiming a name first.
inline constexpr std::string_view kSocketPrefix = "ashlar-live.";

// Returns "ashlar-live.PID.RANDOM". kDeviceFault: getrandom(2) failed.
Result<std::string> generate_socket_name();

// Returns the socket names in `lines`, the content of /proc/net/unix, that begin with
// kSocketPrefix. Ignores malformed lines.
std::vector<std::string> socket_names_in(std::string_view lines);

// A monitored process, and a connection to it. The process belongs to the user of this process or,
// if this process runs as root, to any user.
struct MonitoredProcess {
  pid_t pid = 0;  // PID in the PID namespace of this process
  UniqueFd socket{};
};

// Returns all monitored processes in the order of their pids. Does not wait for any process: omits
// processes whose socket does not accept a connection immediately.
// kDeviceFault: /proc/net/unix cannot be read.
Result<std::vector<MonitoredProcess>> find_monitored_processes();

// Connects to one process, without waiting for it. kInvalidArgument: the process does not exist,
// belongs to another user, or is not monitored; the message says what to do. kDeviceFault:
// /proc/net/unix cannot be read.
Result<MonitoredProcess> connect_to_monitored_process(pid_t pid);

}  // namespace ashlar::live
