// SPDX-License-Identifier: Apache-2.0
//
// The ranks of a group that are on other machines, as this rank reaches them: a connection to each,
// and who speaks for which machine. Made once all ranks have joined; constant afterwards, and
// thread safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "symm/transports/transport.h"

namespace ashlar::symm {

class RemoteRanks {
 public:
  struct Options {
    std::string group{};                 // for sentences
    std::shared_ptr<Failure> failure{};  // the group's; also owned by it and by connections
    int rank = 0;
    std::vector<int> leaders{};            // by rank: the lowest rank on its machine
    std::vector<std::string> addresses{};  // by rank, of their transports
  };

  // Connects to every rank whose leader is another than this rank's. REQUIRES: transport not null.
  static Result<std::shared_ptr<RemoteRanks>> connect(std::shared_ptr<Transport> transport,
                                                      const Options& options, Deadline deadline);

  // REQUIRES, here and below: 0 <= rank < world size.
  bool contains(int rank) const { return endpoints_[rank] != nullptr; }
  int leader_of(int rank) const { return leaders_[rank]; }
  Transport& transport() const { return *transport_; }
  // REQUIRES: contains(rank).
  Endpoint& endpoint(int rank) const { return *endpoints_[rank]; }

  // What was told has arrived, as far as that is known by the deadline; and from now on the others
  // may go. Everybody says so before anybody does.
  void say_farewell(Deadline deadline) const;

 private:
  RemoteRanks(std::shared_ptr<Transport> transport, std::vector<int> leaders)
      : transport_(std::move(transport)),
        leaders_(std::move(leaders)),
        endpoints_(leaders_.size()) {}

  const std::shared_ptr<Transport> transport_;  // also owned by the user, and by other groups
  const std::vector<int> leaders_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;  // by rank; null: on this machine
};

}  // namespace ashlar::symm
