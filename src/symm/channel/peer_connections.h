// SPDX-License-Identifier: Apache-2.0
//
// The connections of one rank of a group to those of the others that it reaches through the
// channel: on this machine, and in other processes. Thread safe as far as one act (a rendezvous) at
// a time sends and receives; ends are noticed by the channel meanwhile.
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
    std::string group_name{};  // for sentences
    RankInfo rank_info{};
    // By rank. None: not reached this way (ourselves, our own process, another machine).
    std::vector<std::optional<ChannelAddress>> peers{};
  };

  // No connection yet, but others may call from now on. `channel` outlives it.
  PeerConnections(Channel& channel, const Options& options, std::shared_ptr<Failure> failure);
  // Whoever has not said anything is taken for dead by the others.
  ~PeerConnections();
  PeerConnections(const PeerConnections&) = delete;
  PeerConnections& operator=(const PeerConnections&) = delete;

  // The higher of two ranks calls the lower one. What was reached by the deadline stays connected,
  // until the reason is known: that one of them did not call is seldom all there is to say.
  Status connect(Deadline deadline);
  bool reaches(int rank) const { return connections_[rank] != nullptr; }
  // `fd` stays the caller's; -1: an empty hand. REQUIRES: reaches(rank).
  Status send(int rank, uint64_t sequence, int fd, Deadline deadline);
  // What that rank sent under this number; what is left of earlier ones is dropped. Ends with the
  // group's failure too. REQUIRES: reaches(rank).
  Result<UniqueFd> receive(int rank, uint64_t sequence, Deadline deadline);

  // The connections end: because all are done (ok), or for `reason`. Those who called and have had
  // no answer are told, too. Nothing is said a second time.
  void close_all(const Status& reason);

 private:
  Result<UniqueFd> reach(int rank, const ChannelAddress& address, Deadline deadline);
  void add(int rank, UniqueFd socket);
  void answer_callers();
  Status lost(int rank) const;

  Channel& channel_;
  const Options options_;
  const std::shared_ptr<Failure> failure_;
  std::vector<std::shared_ptr<PeerConnection>>
      connections_;  // by rank; the channel's thread owns them too
};

}  // namespace ashlar::symm
