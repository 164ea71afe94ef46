// SPDX-License-Identifier: Apache-2.0
//
// Compares put, get and atomics between two ranks with raw UCX, one at a time and in batches.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ashlar/symmetric.h"
#include "comparison.h"
#include "raw_ucx.h"
#include "rendezvous_folder.h"

namespace ashlar::symm {

// How the two ranks communicate.
struct PairTransport {
  std::string name{};                 // the name of the group, and the prefix of each title
  std::string ucx_transports{};       // used by raw UCX and, if `is_network`, by Ashlar
  bool is_network = false;            // if false, Ashlar maps the memory of the peer
  std::optional<double> max_ratio{};  // limit of the time relative to raw UCX
};

class PairComparison {
 public:
  // REQUIRES: RawUcx::has(transport.ucx_transports).
  PairComparison(const RendezvousFolder& folder, const ComparisonPlan& plan,
                 const PairTransport& transport);
  void run();

 private:
  using Operation = std::function<void()>;
  struct Entry {
    std::string title{};
    int iterations = 1;
    Operation raw{};
    Operation ours{};
  };

  void copies(size_t bytes);
  void words();
  void batches();
  void compare(const Entry& entry);

  const PairTransport transport_;
  const ComparisonPlan plan_;
  Heap heap_;
  Group group_;
  SymmetricBuffer buffer_;
  Handle handle_;
  RawUcx raw_;
  std::vector<std::byte> local_;
};

}  // namespace ashlar::symm
