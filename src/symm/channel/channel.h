// SPDX-License-Identifier: Apache-2.0
//
// Local connections between the processes on one machine.
//
// Every process listens on one abstract Unix socket with a random name, and publishes the name and
// a random token to its peers. A connection belongs to two ranks of one group: messages of
// different groups never mix, and leaving a group closes its connections.
//
// The channel's thread accepts connections from processes of the same user that send the token
// before the handshake times out. It also watches the connections of all groups: if one ends
// without a closing message, or with one that reports a failure, the thread fails the group
// immediately. Thread safe.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ashlar/deadline.h"
#include "ashlar/status.h"
#include "ashlar/unique_fd.h"
#include "base/mutex.h"
#include "symm/core/failure.h"

namespace ashlar::symm {

using Token = std::array<uint8_t, 16>;

Result<Token> generate_token();
std::string to_hex(const Token& token);

// The address at which a process listens, and the token that a connecting process must present.
struct ChannelAddress {
  std::string name{};  // the name of the abstract socket; at most 100 characters
  Token token{};
};

// Identifies a connection.
struct ConnectionId {
  Token group{};
  int from = 0;  // the rank that connects
  int to = 0;
  friend auto operator<=>(const ConnectionId&, const ConnectionId&) = default;
};

// A descriptor that a peer sent in a kMemory message.
struct ReceivedMemory {
  uint64_t sequence = 0;
  UniqueFd fd{};  // invalid if the peer sent none
};

// A connection to another rank. Owned by its group and, while it is watched, by the channel.
struct PeerConnection {
  UniqueFd socket{};
  int peer = 0;
  std::string group{};  // for error messages
  // Shared with the group. The channel's thread may report a failure after the group is destroyed.
  std::shared_ptr<Failure> failure{};
  // Held from receiving a message until it is handled. After a disconnect, both the group and the
  // channel's thread receive: without the lock, one could report a dead peer while the other has
  // received the peer's reason but not yet reported it.
  Mutex receive_mutex{};
  // The descriptors that `disconnect_reason` received after the peer left normally, oldest first.
  // The group may still need them.
  std::deque<ReceivedMemory> unread ASHLAR_GUARDED_BY(receive_mutex){};
};

Status peer_lost_error(const PeerConnection& connection);

// Receives the remaining messages of a connection that has ended. Returns the reason that the peer
// sent, peer_lost_error() if it sent none, and ok if it left the group normally. Adds the
// descriptors that it receives to `connection.unread`.
Status disconnect_reason(PeerConnection& connection) ASHLAR_REQUIRES(connection.receive_mutex);

class Channel {
 public:
  struct Limits {
    std::chrono::milliseconds handshake_timeout{5000};
    // The maximum number of handshakes in progress and, separately, of connections that wait for
    // `accept`. Each of them holds a descriptor.
    size_t max_pending = 1024;
  };

  static Result<std::unique_ptr<Channel>> open() { return open(Limits()); }
  static Result<std::unique_ptr<Channel>> open(const Limits& limits);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  const ChannelAddress& address() const { return address_; }

  // Connects to another process. Returns kPeerLost if no process listens at the address, kTimeout
  // if the peer does not accept in time, and kInvalidArgument if the peer runs as another user.
  static Result<UniqueFd> connect(const ChannelAddress& address, const ConnectionId& id,
                                  Deadline deadline);
  // Waits until another process opens the connection `id`. Returns the reason of `failure` if it is
  // reported first, and kTimeout at the deadline.
  Result<UniqueFd> accept(const ConnectionId& id, const Failure& failure, Deadline deadline);

  // Starts watching the connection: if it is closed without a closing message, the group fails.
  void watch(std::shared_ptr<PeerConnection> connection);
  // Stops watching the connection: if it is closed later, nothing happens.
  void unwatch(const PeerConnection& connection);

 private:
  // An accepted connection that has not sent its hello message.
  struct Handshake {
    UniqueFd socket;
    Deadline deadline;
  };
  struct PollSet {
    std::vector<Handshake> handshakes;                         // used by the channel's thread only
    std::vector<std::shared_ptr<PeerConnection>> connections;  // copy of `connections_`
  };

  Channel(const Limits& limits, ChannelAddress address, UniqueFd listening, UniqueFd wake);

  // The next six functions run on the channel's thread.
  void run();
  bool poll_once(PollSet& poll_set);
  void begin_handshake(std::vector<Handshake>& handshakes);
  void finish_handshake(UniqueFd socket);
  void drop_closed_pending_locked() ASHLAR_REQUIRES(mutex_);
  void handle_disconnect(const std::shared_ptr<PeerConnection>& connection);
  // Interrupts the `poll` of the channel's thread. Called on any thread.
  void wake() const;

  const Limits limits_;
  const ChannelAddress address_;
  const UniqueFd listening_;
  const UniqueFd wake_;  // readable when `connections_` or `is_stopping_` has changed

  Mutex mutex_;
  std::condition_variable arrived_;
  bool is_stopping_ ASHLAR_GUARDED_BY(mutex_) = false;
  std::map<ConnectionId, UniqueFd> pending_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<PeerConnection>> connections_ ASHLAR_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace ashlar::symm
