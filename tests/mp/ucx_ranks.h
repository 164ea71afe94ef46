// SPDX-License-Identifier: Apache-2.0
//
// Ranks that reach each other over UCX alone, for tests: each has some memory that all others know.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "ashlar/ucx_transport.h"
#include "mp/ranks.h"
#include "symm/transports/transport.h"

namespace ashlar::symm {

inline constexpr size_t kSharedBytes = size_t{1} << 20;

class UcxRank {
 public:
  // Opens a transport, and meets the others in the store. Throws what went wrong.
  UcxRank(RankParts& parts, const std::string& transports, const std::string& devices = {});

  // All ranks come here, by way of the store.
  void barrier();
  // Leaves together with the others.
  void leave();

  RemoteRegion& at(int rank) { return *regions_[rank]; }
  Endpoint& endpoint(int rank) { return *endpoints_[rank]; }
  // The word of own memory that others change.
  uint64_t own_word(size_t offset) const;
  std::byte* own() { return memory_.data(); }

  const std::shared_ptr<Failure> failure = std::make_shared<Failure>();
  std::shared_ptr<Transport> transport;

 private:
  RankParts& parts_;
  int barrier_count_ = 0;
  std::vector<std::byte> memory_ = std::vector<std::byte>(kSharedBytes);
  std::unique_ptr<Region> region_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::vector<std::unique_ptr<RemoteRegion>> regions_;
};

// Throws the status, which ends the rank with it.
void must(const Status& status);
template <typename T>
T must(Result<T> result) {
  must(result.status());
  return *std::move(result);
}

}  // namespace ashlar::symm
