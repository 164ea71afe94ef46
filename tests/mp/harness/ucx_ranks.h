// SPDX-License-Identifier: Apache-2.0
//
// Test ranks that access memory of other ranks only over UCX. Each rank exposes one memory region
// to all other ranks.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "ashlar/ucx_transport.h"
#include "mp/harness/ranks.h"
#include "symm/transports/transport.h"

namespace ashlar::symm {

inline constexpr size_t kSharedBytes = size_t{1} << 20;

class UcxRank {
 public:
  // Opens a transport and exchanges addresses with the other ranks through the store. Throws on
  // error.
  UcxRank(RankContext& context, const std::string& transports, const std::string& devices = {});

  // Waits through the store for all ranks.
  void barrier();
  // Collective. Closes the connections so that no rank counts as lost.
  void leave();

  RemoteRegion& region(int rank) { return *regions_[rank]; }
  Endpoint& endpoint(int rank) { return *endpoints_[rank]; }
  // Reads a word of this rank's memory that other ranks write.
  uint64_t own_word(size_t offset) const;
  std::byte* memory() { return memory_.data(); }

  const std::shared_ptr<Failure> failure = std::make_shared<Failure>();
  std::shared_ptr<Transport> transport;

 private:
  RankContext& context_;
  int barrier_count_ = 0;
  std::vector<std::byte> memory_ = std::vector<std::byte>(kSharedBytes);
  std::unique_ptr<Region> region_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::vector<std::unique_ptr<RemoteRegion>> regions_;
};

// Throws if `status` is an error. The error then becomes the rank's result.
void check_ok(const Status& status);
template <typename T>
T check_ok(Result<T> result) {
  check_ok(result.status());
  return *std::move(result);
}

}  // namespace ashlar::symm
