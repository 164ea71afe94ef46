// SPDX-License-Identifier: Apache-2.0
//
// Whether the ranks of a group live, as their store tells: each writes a new number at every beat,
// and one whose number stays the same for the length of a lease is lost: stopped, or its machine
// gone. Deaths on this machine are noticed sooner, by the links.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "ashlar/store.h"
#include "symm/core/rank_info.h"
#include "symm/membership/failure_record.h"
#include "symm/membership/heartbeat_thread.h"

namespace ashlar::symm {

class LeaseMonitor final : public HeartbeatTask {
 public:
  struct Options {
    std::string prefix{};  // of the keys
    std::string group{};   // for sentences
    RankInfo rank_info{};
    std::vector<int> watched{};  // ranks: those of other processes
    std::chrono::milliseconds lease{5000};
    std::chrono::milliseconds key_ttl = std::chrono::minutes(10);
  };

  // `verdict` outlives it.
  LeaseMonitor(std::shared_ptr<Store> store, FailureRecord& failure_record, Options options);

  // On the heart's thread only.
  void run(Deadline deadline) override;
  // Takes the own number out of the store. REQUIRES: it beats no more.
  void end(Deadline deadline);

 private:
  struct Heard {
    std::string number{};
    Deadline::Clock::time_point at{};
  };

  std::string key(int rank) const;
  void judge(const std::vector<std::optional<std::string>>& numbers);

  const std::shared_ptr<Store> store_;
  FailureRecord& failure_record_;
  const Options options_;
  uint64_t own_number_ = 0;
  std::vector<Heard> heard_;              // as watched
  Deadline::Clock::time_point last_run_;  // that reached the store
};

}  // namespace ashlar::symm
