// SPDX-License-Identifier: Apache-2.0
//
// The connections of one rank to the ranks of its group that run in other processes of this
// machine. Sending and receiving require external synchronization: one rendezvous at a time. The
// channel detects disconnects concurrently.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "symm/channel/channel.h"
#include "symm/core/rank_info.h"

namespace ashlar::symm {

class PeerConnections {
 public:
  struct Options {
    Token group{};
    std::string group_name{};  // for error messages
    RankInfo rank_info{};
    // The address of each rank. Empty for ranks of this process and of other machines.
    std::vector<std::optional<ChannelAddress>> peers{};
  };

  // Does not connect yet, but peers may connect from now on. REQUIRES: `channel` outlives this.
  PeerConnections(Channel& channel, const Options& options, std::shared_ptr<Failure> failure);
  // If `close_all` was not called, peers treat this rank as dead.
  ~PeerConnections();
  PeerConnections(const PeerConnections&) = delete;
  PeerConnections& operator=(const PeerConnections&) = delete;

  // The higher of two ranks connects to the lower. On failure, the connections made so far stay
  // open, so that `close_all` can send the reason.
  Status connect(Deadline deadline);
  bool reaches(int rank) const { return connections_[rank] != nullptr; }
  // Sends a descriptor, or none if `fd` is -1. The caller keeps ownership. REQUIRES: reaches(rank).
  Status send(int rank, uint64_t sequence, int fd, Deadline deadline);
  // Receives the descriptor that `rank` sent with this sequence number, and drops those of earlier
  // ones. Also ends when the group fails. REQUIRES: reaches(rank).
  Result<UniqueFd> receive(int rank, uint64_t sequence, Deadline deadline);

  // Closes all connections and sends the peers the reason: ok if the group is left normally. Also
  // answers peers that have connected but have not been accepted yet. Later calls do nothing.
  void close_all(const Status& reason);

 private:
  Result<UniqueFd> open_connection(int rank, const ChannelAddress& address, Deadline deadline);
  void add(int rank, UniqueFd socket);
  void accept_pending();
  Status report_lost(PeerConnection& connection) const ASHLAR_REQUIRES(connection.receive_mutex);

  Channel& channel_;
  const Options options_;
  const std::shared_ptr<Failure> failure_;
  // The connection to each rank; null if there is none. Also owned by the channel's thread.
  std::vector<std::shared_ptr<PeerConnection>> connections_;
};

}  // namespace ashlar::symm
