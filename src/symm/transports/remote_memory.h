// SPDX-License-Identifier: Apache-2.0
//
// One symmetric block as it lies on other machines: this rank's, which they reach, and theirs,
// which this rank reaches. Offsets count from the beginning of the block. Constant, and thread
// safe; ends of waits are those of the transport.
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
  // What is this rank's: others reach it until this is gone.
  struct Own {
    std::shared_ptr<MappedMemory> memory{};  // also owned by the block, and by tables of peers
    std::unique_ptr<Region> region{};        // goes first
  };

  // `regions`: by rank, null for those on this machine.
  RemoteMemory(std::shared_ptr<const RemoteRanks> remotes, Own own,
               std::vector<std::unique_ptr<RemoteRegion>> regions)
      : remotes_(std::move(remotes)), own_(std::move(own)), regions_(std::move(regions)) {}

  const RemoteRanks& remotes() const { return *remotes_; }
  bool contains(int rank) const { return remotes_->contains(rank); }

  // REQUIRES, here and below: contains(rank). Seen by nobody before `quiet`.
  Status put(int rank, uint64_t offset, std::span<const std::byte> from, Deadline deadline) const {
    return from.empty() ? Status() : regions_[rank]->put(offset, from, deadline);
  }
  Status get(int rank, uint64_t offset, std::span<std::byte> into, Deadline deadline) const {
    return into.empty() ? Status() : regions_[rank]->get(offset, into, deadline);
  }
  // Changes a word, some time after this returns. kTimeout: it does not.
  Status post(int rank, const AtomicOp& call, Deadline deadline) const {
    return regions_[rank]->post(call, deadline);
  }
  // What was there before.
  Result<uint64_t> fetch(int rank, const AtomicOp& call, Deadline deadline) const {
    return regions_[rank]->fetch(call, deadline);
  }
  // What was put and added before is seen before what comes after.
  Status fence(int rank, Deadline deadline) const {
    return remotes_->endpoint(rank).fence(deadline);
  }
  // What was put and added before has arrived.
  Status quiet(int rank, Deadline deadline) const {
    return remotes_->endpoint(rank).quiet(deadline);
  }
  // The same of all ranks.
  Status fence(Deadline deadline) const {
    return for_each([&](int rank) { return fence(rank, deadline); });
  }
  Status quiet(Deadline deadline) const {
    return for_each([&](int rank) { return quiet(rank, deadline); });
  }

 private:
  template <typename Act>
  Status for_each(const Act& act) const {
    for (int rank = 0; rank < static_cast<int>(regions_.size()); ++rank) {
      if (!contains(rank)) continue;
      if (Status done = act(rank); !done.ok()) return done;
    }
    return {};
  }

  const std::shared_ptr<const RemoteRanks>
      remotes_;  // also owned by the circle, and by others like it
  const Own own_;
  const std::vector<std::unique_ptr<RemoteRegion>> regions_;
};

}  // namespace ashlar::symm
