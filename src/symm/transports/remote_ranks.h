// SPDX-License-Identifier: Apache-2.0
//
// The connections of this rank to the ranks of its group on other machines, and the leader rank of
// each machine. Created when all ranks have joined. Immutable afterwards, and thread safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "symm/transports/transport.h"

namespace ashlar::symm {

class RemoteRanks {
 public:
  struct Options {
    std::string group{};                 // for error messages
    std::shared_ptr<Failure> failure{};  // also owned by the group and by connections
    int rank = 0;
    std::vector<int> leaders{};            // for each rank, the lowest rank on its machine
    std::vector<std::string> addresses{};  // for each rank, the address of its transport
  };

  // Connects to every rank that has a different leader. REQUIRES: `transport` is not null.
  static Result<std::shared_ptr<RemoteRanks>> connect(std::shared_ptr<Transport> transport,
                                                      const Options& options, Deadline deadline);

  // REQUIRES, for all functions with a rank: 0 <= rank < world size.
  bool contains(int rank) const { return endpoints_[rank] != nullptr; }
  int leader_of(int rank) const { return leaders_[rank]; }
  Transport& transport() const { return *transport_; }
  // REQUIRES: contains(rank).
  Endpoint& endpoint(int rank) const { return *endpoints_[rank]; }

  // Waits for the outstanding operations of all connections until the deadline. After the call, the
  // end of a connection is not a failure of the group, even if the call failed. Every rank of a
  // group that ends normally calls this function before any rank closes its connections. Returns
  // the first error, such as that of a posted operation which the remote rank rejected.
  Status announce_close(Deadline deadline) const;

 private:
  RemoteRanks(std::shared_ptr<Transport> transport, std::vector<int> leaders)
      : transport_(std::move(transport)),
        leaders_(std::move(leaders)),
        endpoints_(leaders_.size()) {}

  const std::shared_ptr<Transport> transport_;  // also owned by the user and by other groups
  const std::vector<int> leaders_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;  // indexed by rank; null for local ranks
};

}  // namespace ashlar::symm
