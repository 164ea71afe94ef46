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
    // The address of each rank, indexed by rank. Empty for ranks in this process and on other
    // machines.
    std::vector<std::optional<ChannelAddress>> peers{};
  };

  // Does not connect yet. Connections that peers open wait in the channel until `connect` accepts
  // them. REQUIRES: `channel` outlives this object.
  PeerConnections(Channel& channel, const Options& options, std::shared_ptr<Failure> failure);
  // If `close_all` was not called, peers treat this rank as dead.
  ~PeerConnections();
  PeerConnections(const PeerConnections&) = delete;
  PeerConnections& operator=(const PeerConnections&) = delete;

  // Connects to all ranks that have an address. The higher of two ranks connects to the lower.
  // After a timeout, the connections made so far stay open, so that `close_all` can send the
  // reason. Any other error closes them with the error as the reason.
  Status connect(Deadline deadline);
  bool reaches(int rank) const { return connections_[rank] != nullptr; }
  // Sends a descriptor, or none if `fd` is -1. The caller keeps ownership of `fd`. REQUIRES:
  // reaches(rank).
  Status send(int rank, uint64_t sequence, int fd, Deadline deadline);
  // Receives the descriptor that `rank` sent with this sequence number; invalid if it sent none.
  // Drops descriptors with lower sequence numbers. Returns the reason if the group fails. REQUIRES:
  // reaches(rank).
  Result<UniqueFd> receive(int rank, uint64_t sequence, Deadline deadline);

  // Sends the reason to all peers, including those whose connections have not been accepted yet,
  // and closes the connections. `reason` is ok if this rank leaves the group normally. Ignores
  // errors. A later call affects only peers that have connected since.
  void close_all(const Status& reason);

 private:
  Result<UniqueFd> open_connection(int rank, const ChannelAddress& address, Deadline deadline);
  void add(int rank, UniqueFd socket);
  void accept_pending();
  static std::optional<UniqueFd> take_unread(PeerConnection& connection, uint64_t sequence)
      ASHLAR_REQUIRES(connection.receive_mutex);
  Status report_lost(PeerConnection& connection) const ASHLAR_REQUIRES(connection.receive_mutex);

  Channel& channel_;
  const Options options_;
  const std::shared_ptr<Failure> failure_;
  // The connection to each rank; null if there is none. Also owned by the channel's thread.
  std::vector<std::shared_ptr<PeerConnection>> connections_;
};

}  // namespace ashlar::symm
