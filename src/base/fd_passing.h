// SPDX-License-Identifier: Apache-2.0
//
// Local sockets that carry messages with file descriptors between processes of one user. Sockets
// are sequenced-packet (one message per packet) unless stated otherwise, and have abstract names,
// which leave nothing in the file system. All waits except accept_or_stop have a timeout; a send or
// receive that times out returns kDeviceFault with code ETIMEDOUT. All descriptors are
// close-on-exec.
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
  pid_t pid = 0;  // the process at the other end; 0: not visible in this pid namespace
};

enum class LocalSocketType {
  kPackets,  // sequenced packets: one message per packet
  kStream,   // a byte stream
};

struct ReceivedMessage {
  size_t bytes = 0;  // number of bytes received into the buffer
  UniqueFd fd;       // invalid if none was attached
};

struct ReceivedDescriptors {
  size_t bytes = 0;  // number of bytes received into the buffer; 0: the peer closed the connection
  std::vector<UniqueFd> fds;
};

// Creates a socket that listens at an abstract name. REQUIRES: `name` has at most 100 characters.
Result<UniqueFd> listen_abstract(std::string_view name,
                                 LocalSocketType kind = LocalSocketType::kPackets);
// Connects to a listening socket. kDeviceFault with code ECONNREFUSED: no process listens at the
// name; with code EAGAIN: the listener's queue stayed full for the timeout, which is at least one
// millisecond.
Result<UniqueFd> connect_abstract(std::string_view name, std::chrono::milliseconds timeout,
                                  LocalSocketType kind = LocalSocketType::kPackets);

// Accepts the next connection, or returns an invalid descriptor if `stop_fd` becomes readable
// first.
Result<UniqueFd> accept_or_stop(int listening_fd, int stop_fd);

// Returns whether reading would not block.
bool is_readable_now(int fd);

// Accepts a pending connection. REQUIRES: poll(2) reported a connection, and no other thread
// accepts from this socket.
Result<UniqueFd> accept_pending(int listening_fd);

// Returns the peer's credentials, as reported by the kernel.
Result<PeerCredentials> peer_credentials(int socket_fd);

// Sends one message with the descriptor `attached_fd`, or without a descriptor if it is -1. Does
// not take ownership of the descriptor.
Status send_message(int socket_fd, std::span<const uint8_t> bytes, int attached_fd,
                    std::chrono::milliseconds timeout);
// Receives one message. kFormat: the message is longer than the buffer, has more than one
// descriptor, or the peer closed the connection.
Result<ReceivedMessage> receive_message(int socket_fd, std::span<uint8_t> buffer,
                                        std::chrono::milliseconds timeout);

inline constexpr size_t kMaxAttachedFds = 253;  // the kernel's limit for one message
// Sends one message with up to kMaxAttachedFds descriptors. Does not take ownership of the
// descriptors.
Status send_descriptors(int socket_fd, std::span<const uint8_t> bytes,
                        std::span<const UniqueFd> fds, std::chrono::milliseconds timeout);
// Receives one message with several descriptors. kFormat: the message is longer than the buffer or
// has more than `max_fds` descriptors. kDeviceFault: the kernel could not deliver all descriptors,
// usually because of the open-file limit.
Result<ReceivedDescriptors> receive_descriptors(int socket_fd, std::span<uint8_t> buffer,
                                                size_t max_fds, std::chrono::milliseconds timeout);

}  // namespace ashlar
