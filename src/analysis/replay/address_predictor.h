// SPDX-License-Identifier: Apache-2.0
//
// Where segments would have lain if the recorded process had run under other settings: the driver's
// rule, and beside it the unseen acts of the recorded process, each at its moment. Under the
// recorded settings that gives the recorded addresses. Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analysis/replay/inferred_allocations.h"
#include "device/sim/driver_addresses.h"

namespace ashlar {

class LikelyAddresses {
 public:
  explicit LikelyAddresses(const std::vector<TraceEntry>& trace);

  // Lets everything unseen happen that comes before this entry's end. Entries come in order.
  void go_to(uint32_t entry);
  // 0: there is no room.
  uint64_t take(size_t bytes) { return addresses_.take(bytes); }
  void give_back(uint64_t at) { addresses_.give_back(at); }

 private:
  using Range = sim::DriverAddresses::Range;
  struct Moved {
    size_t bytes = 0;
    uint64_t to = 0;
  };
  void perform(const UnseenAct& act);
  Range where_now(const Range& recorded) const;

  const Unseen unseen_;
  size_t next_ = 0;
  sim::DriverAddresses addresses_;
  std::map<uint64_t, Moved> moved_;  // what lies elsewhere now, by where it was recorded
};

}  // namespace ashlar
