// SPDX-License-Identifier: Apache-2.0
//
// Messages with file descriptors attached, between processes of one user on one machine: the
// little of Unix sockets that sharing memory needs. Sockets are sequenced packets (one message is
// one packet), unless said otherwise, under abstract names, so nothing is left behind in any file
// system.
// Every wait has a deadline. All descriptors are close-on-exec.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/status.h"
#include "ashlar/unique_fd.h"

namespace ashlar {

struct PeerCredentials {
  uid_t uid = 0;
  pid_t pid = 0;  // of who connected, or of who listens; 0: out of our sight
};

// Messages, or bytes without borders between them.
enum class LocalSocket { kPackets, kStream };

struct ReceivedMessage {
  size_t bytes = 0;  // how much of the buffer was filled
  UniqueFd fd;       // invalid if none was attached
};

struct ReceivedDescriptors {
  size_t bytes = 0;  // how much of the buffer was filled; 0: the other end closed
  std::vector<UniqueFd> fds;
};

// A listening socket under an abstract name. REQUIRES: at most 100 characters.
Result<UniqueFd> listen_abstract(std::string_view name, LocalSocket kind = LocalSocket::kPackets);
// kDeviceFault, with the system's code: ECONNREFUSED: nobody listens; EAGAIN: nobody accepted
// within the time, which is at least a millisecond.
Result<UniqueFd> connect_abstract(std::string_view name, std::chrono::milliseconds timeout,
                                  LocalSocket kind = LocalSocket::kPackets);

// The next connection, or an invalid descriptor when `stop_fd` became readable first.
Result<UniqueFd> accept_or_stop(int listening_fd, int stop_fd);

// A connection that waits already. REQUIRES: poll(2) said so, and nobody else accepts here.
Result<UniqueFd> accept_waiting(int listening_fd);

// Who is at the other end, as the kernel knows it.
Result<PeerCredentials> peer_credentials(int socket_fd);

// `attached_fd` of -1 attaches nothing. The descriptor stays the caller's.
Status send_message(int socket_fd, std::span<const uint8_t> bytes, int attached_fd,
                    std::chrono::milliseconds timeout);
// kFormat: the message is longer than the buffer, has more than one descriptor attached, or the
// other end closed without one.
Result<ReceivedMessage> receive_message(int socket_fd, std::span<uint8_t> buffer,
                                        std::chrono::milliseconds timeout);

// The same with several descriptors. The kernel attaches no more than 253 to one message.
inline constexpr size_t kMostAttachedFds = 253;
Status send_descriptors(int socket_fd, std::span<const uint8_t> bytes,
                        std::span<const UniqueFd> fds, std::chrono::milliseconds timeout);
// kFormat: the message is longer than the buffer, or has more than `most_fds` attached.
// kDeviceFault: the system did not let us have them all (too many open files, most likely).
Result<ReceivedDescriptors> receive_descriptors(int socket_fd, std::span<uint8_t> buffer,
                                                size_t most_fds, std::chrono::milliseconds timeout);

}  // namespace ashlar
