// SPDX-License-Identifier: Apache-2.0
//
// Access to one symmetric heap block on other machines: the regions of remote ranks, and the
// registration of the local block, through which those ranks access the local block. Offsets are
// relative to the beginning of the block. Immutable and thread safe. Waits end as described in
// transport.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "symm/backends/backend.h"
#include "symm/transports/remote_ranks.h"

namespace ashlar::symm {

class RemoteMemory {
 public:
  // The registration of the local block. Peers can access the block until this object is destroyed.
  struct LocalRegion {
    std::shared_ptr<MappedMemory> memory{};  // also owned by the heap block and by peer tables
    std::unique_ptr<Region> region{};        // destroyed first
  };

  // `regions` is indexed by rank, with null for ranks on this machine.
  RemoteMemory(std::shared_ptr<const RemoteRanks> remotes, LocalRegion local,
               std::vector<std::unique_ptr<RemoteRegion>> regions)
      : remotes_(std::move(remotes)), local_(std::move(local)), regions_(std::move(regions)) {}

  const RemoteRanks& remotes() const { return *remotes_; }
  bool contains(int rank) const { return remotes_->contains(rank); }

  // REQUIRES, for all functions below with a rank: contains(rank).

  // Writes to the rank's block. The data is visible to that rank after `quiet`.
  Status put(int rank, uint64_t offset, std::span<const std::byte> from, Deadline deadline) const {
    return from.empty() ? Status() : regions_[rank]->put(offset, from, deadline);
  }
  Status get(int rank, uint64_t offset, std::span<std::byte> into, Deadline deadline) const {
    return into.empty() ? Status() : regions_[rank]->get(offset, into, deadline);
  }
  // Applies an atomic operation without returning the previous value; complete after `quiet`. After
  // kTimeout the operation does not take place.
  Status post(int rank, const AtomicOp& op, Deadline deadline) const {
    return regions_[rank]->post(op, deadline);
  }
  // Applies an atomic operation and returns the previous value.
  Result<uint64_t> fetch(int rank, const AtomicOp& op, Deadline deadline) const {
    return regions_[rank]->fetch(op, deadline);
  }
  // Orders earlier puts and posts to `rank` before later ones.
  Status fence(int rank, Deadline deadline) const {
    return remotes_->endpoint(rank).fence(deadline);
  }
  // Waits until all earlier puts and posts to `rank` are visible to it.
  Status quiet(int rank, Deadline deadline) const {
    return remotes_->endpoint(rank).quiet(deadline);
  }
  // `fence` and `quiet` for all remote ranks, up to the first error.
  Status fence(Deadline deadline) const {
    return for_each([&](int rank) { return fence(rank, deadline); });
  }
  Status quiet(Deadline deadline) const {
    return for_each([&](int rank) { return quiet(rank, deadline); });
  }

 private:
  template <typename Function>
  Status for_each(const Function& function) const {
    for (int rank = 0; rank < static_cast<int>(regions_.size()); ++rank) {
      if (!contains(rank)) continue;
      if (Status done = function(rank); !done.ok()) return done;
    }
    return {};
  }

  // Shared with the communicator and the memory of other blocks.
  const std::shared_ptr<const RemoteRanks> remotes_;
  const LocalRegion local_;
  const std::vector<std::unique_ptr<RemoteRegion>> regions_;
};

}  // namespace ashlar::symm
