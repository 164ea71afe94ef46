// SPDX-License-Identifier: Apache-2.0
//
// The processes that show themselves, as others find them: Unix sockets under abstract names, which
// the system lists. Whose a socket is, the kernel says; names are only where to look. Nothing is
// left behind by a process that was killed. Thread safe.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "ashlar/status.h"
#include "ashlar/unique_fd.h"

namespace ashlar::live {

// What every name begins with. A random end keeps others from taking it first.
inline constexpr std::string_view kSocketPrefix = "ashlar-live.";

// "ashlar-live.PID.RANDOM". kDeviceFault: the system has no random bytes.
Result<std::string> draw_socket_name();

// The names among the lines of /proc/net/unix; what is not understood is passed over.
std::vector<std::string> socket_names_in(std::string_view lines);

// A process of our user (or, for root, of anybody) that answers.
struct Exposed {
  pid_t pid = 0;  // as we see it
  UniqueFd socket{};
};

// By their numbers, one socket for each process. kDeviceFault: the system lists no sockets.
Result<std::vector<Exposed>> find_exposed();

// Tries the sockets that carry the number first. Waits for nobody, as find_exposed does not.
// kInvalidArgument: there is no such process, or it is somebody else's, or shows nothing; the
// message says which, and what to do.
Result<Exposed> connect_to_exposed(pid_t pid);

}  // namespace ashlar::live
