// SPDX-License-Identifier: Apache-2.0
//
// Two ranks beside UCX alone: rank 0 puts, gets and changes words at rank 1, one by one and many at
// once.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ashlar/symmetric.h"
#include "contest.h"
#include "meeting_place.h"
#include "raw_ucx.h"

namespace ashlar::symm {

// How the two reach each other.
struct PairWay {
  std::string name{};            // of the group, and before each title
  std::string ucx_transports{};  // UCX alone; Ashlar, too, if it is a network
  bool is_network = false;       // if not, Ashlar has the other's memory by pointer
  std::optional<double> most{};  // how many times as long as UCX alone it may take
};

class PairContest {
 public:
  // REQUIRES: RawUcx::has(way.ucx_transports).
  PairContest(const MeetingPlace& place, const ContestPlan& plan, const PairWay& way);
  void hold();

 private:
  using Act = std::function<void()>;
  struct Entry {
    std::string title{};
    int turns = 1;
    Act raw{};
    Act ours{};
  };

  void copies(size_t bytes);
  void words();
  void batches();
  void contest(const Entry& entry);

  const PairWay way_;
  const ContestPlan plan_;
  Heap heap_;
  Group group_;
  Buffer buffer_;
  Handle handle_;
  RawUcx raw_;
  std::vector<std::byte> own_;
};

}  // namespace ashlar::symm
