// SPDX-License-Identifier: Apache-2.0
//
// Opens one connection per remote rank, and prepares to close the connections.
#include "symm/transports/remote_ranks.h"

namespace ashlar::symm {

Result<std::shared_ptr<RemoteRanks>> RemoteRanks::connect(std::shared_ptr<Transport> transport,
                                                          const Options& options,
                                                          Deadline deadline) {
  std::shared_ptr<RemoteRanks> ranks(new RemoteRanks(std::move(transport), options.leaders));
  for (int rank = 0; rank < static_cast<int>(options.leaders.size()); ++rank) {
    if (options.leaders[rank] == options.leaders[options.rank]) continue;
    const RemotePeer peer{rank, options.group, options.failure};
    Result<std::unique_ptr<Endpoint>> endpoint =
        ranks->transport_->connect(options.addresses[rank], peer, deadline);
    if (!endpoint.ok()) return endpoint.status();
    ranks->endpoints_[rank] = *std::move(endpoint);
  }
  return ranks;
}

Status RemoteRanks::announce_close(Deadline deadline) const {
  Status first;
  for (const auto& each : endpoints_) {
    if (each == nullptr) continue;
    Status flushed = each->quiet(deadline);
    if (first.ok()) first = std::move(flushed);
    each->announce_close();
  }
  return first;
}

}  // namespace ashlar::symm
