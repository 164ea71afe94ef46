// SPDX-License-Identifier: Apache-2.0
//
// How processes on one machine reach each other: every process listens at one local socket, under a
// name and with a token that it draws at random and publishes to its peers. A connection is for two
// ranks of one group, so that nothing has to be sorted, and a group's end closes what is its own.
//
// The channel's thread takes calls: only from the same user, only with the token, only if they say
// in time who they are. It also watches the connections of all groups: one that ends without a
// farewell is a death, and fails its group at once, whatever the group is waiting for. Thread safe.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ashlar/deadline.h"
#include "ashlar/status.h"
#include "ashlar/unique_fd.h"
#include "base/mutex.h"
#include "base/text.h"
#include "symm/core/failure.h"

namespace ashlar::symm {

using Token = std::array<uint8_t, 16>;

Result<Token> generate_token();
std::string to_hex(const Token& token);

// Where a process listens, and what it wants to hear.
struct ChannelAddress {
  std::string name{};  // abstract, at most 100 characters
  Token token{};
};

// What a connection is for.
struct ConnectionId {
  Token group{};
  int from = 0;  // the rank that calls
  int to = 0;
  friend auto operator<=>(const ConnectionId&, const ConnectionId&) = default;
};

// A connection to another rank, owned by its group and, while it is watched, by the channel's
// thread.
struct PeerConnection {
  UniqueFd socket{};
  int peer = 0;
  std::string group{};                 // for sentences
  std::shared_ptr<Failure> failure{};  // the group's; its second owner, since ends come at any time
};

inline Status disconnect_error(const PeerConnection& connection) {
  return Status::peer_lost(text("rank ", connection.peer, " of group ", connection.group, " died"));
}

class Channel {
 public:
  struct Limits {
    std::chrono::milliseconds patience{5000};  // from a call until it says who it is
    size_t most_waiting = 1024;  // calls that nobody has fetched; each is a descriptor
  };

  static Result<std::unique_ptr<Channel>> open() { return open(Limits()); }
  static Result<std::unique_ptr<Channel>> open(const Limits& limits);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  const ChannelAddress& address() const { return address_; }

  // Calls another process. kPeerLost: nobody listens there. kTimeout: it does not get to listening.
  static Result<UniqueFd> call(const ChannelAddress& address, const ConnectionId& name,
                               Deadline deadline);
  // The call under this name, when it has come. Ends with `failure` too.
  Result<UniqueFd> fetch(const ConnectionId& name, const Failure& failure, Deadline deadline);

  // From now on its end is noticed.
  void watch(std::shared_ptr<PeerConnection> connection);
  // Its end is nothing special any more.
  void unwatch(const PeerConnection& connection);

 private:
  struct Caller {
    UniqueFd socket;
    Deadline deadline;  // for saying who it is
  };
  struct PollSet {
    std::vector<Caller> callers;                               // only the thread's
    std::vector<std::shared_ptr<PeerConnection>> connections;  // as they were when it last looked
  };

  Channel(const Limits& limits, ChannelAddress address, UniqueFd listening, UniqueFd wake);

  // --- on the channel's thread
  void serve();
  bool wait_once(PollSet& poll_set);
  void welcome(std::vector<Caller>& callers);
  void hear_out(UniqueFd socket);
  void forget_ended_calls() ASHLAR_REQUIRES(mutex_);
  void note_end(const std::shared_ptr<PeerConnection>& connection);
  void wake() const;

  const Limits limits_;
  const ChannelAddress address_;
  const UniqueFd listening_;
  const UniqueFd wake_;  // readable when there is something new to watch, or it is time to stop

  Mutex mutex_;
  std::condition_variable arrived_;
  bool is_stopping_ ASHLAR_GUARDED_BY(mutex_) = false;
  std::map<ConnectionId, UniqueFd> waiting_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<PeerConnection>> connections_ ASHLAR_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace ashlar::symm
