// SPDX-License-Identifier: Apache-2.0
//
// Detects dead and suspended ranks of a group through its store. Each rank increments a number with
// every heartbeat. A rank whose number does not change for longer than a lease is lost: its process
// is suspended or dead, or its machine is down. The death of a rank on this machine is detected
// earlier, by its connection.
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
    std::string prefix{};  // the prefix of the keys
    std::string group{};   // for error messages
    RankInfo rank_info{};
    std::vector<int> watched{};  // the ranks in other processes, whose leases are checked
    std::chrono::milliseconds lease{5000};
    std::chrono::milliseconds key_ttl = std::chrono::minutes(10);  // time to live of the heartbeat
  };

  // REQUIRES: `failure_record` outlives this object.
  LeaseMonitor(std::shared_ptr<Store> store, FailureRecord& failure_record, Options options);

  // Called on the heartbeat thread only.
  void run(Deadline deadline) override;
  // Erases this rank's heartbeat from the store. REQUIRES: this monitor is not registered with the
  // heartbeat thread, which would write the heartbeat again.
  void erase_heartbeat(Deadline deadline);

 private:
  struct Heartbeat {
    std::string number{};
    Deadline::Clock::time_point changed_at{};
  };

  std::string key(int rank) const;
  void check_leases(const std::vector<std::optional<std::string>>& numbers);

  const std::shared_ptr<Store> store_;
  FailureRecord& failure_record_;
  const Options options_;
  uint64_t own_number_ = 0;
  std::vector<Heartbeat> heartbeats_;     // parallel to Options::watched
  Deadline::Clock::time_point last_run_;  // the time of the last run that reached the store
};

}  // namespace ashlar::symm
