// SPDX-License-Identifier: Apache-2.0
//
// Applies `sim::FaultRule`s to device calls. While there are no rules, a call costs one atomic
// load. Thread safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <vector>

#include "ashlar/sim.h"
#include "base/mutex.h"
#include "base/random.h"

namespace ashlar::sim {

class FaultInjector {
 public:
  FaultInjector(uint64_t seed, Clock& clock) : clock_(clock), random_(seed) {}

  void inject(FaultRule rule);
  void clear();

  // Returns the status with which the call must fail: kDeviceLost if the device becomes lost; ok if
  // the call continues. Injected delays and hangs block in this function.
  Status apply(DeviceCall call, DeviceIndex device);

  // Lets all hanging calls continue.
  void release_hung_calls();
  size_t hung_call_count() const;

 private:
  struct ActiveRule {
    FaultRule rule;
    uint64_t match_count = 0;  // number of calls that matched so far
  };
  // Copies the first rule that applies to the call into `picked`. Returns false if no rule applies.
  // Counts the call in all rules that match it, including the rules after the picked rule.
  bool pick(DeviceCall call, DeviceIndex device, FaultRule& picked);
  void hang();

  Clock& clock_;
  std::atomic<bool> any_rule_{false};  // relaxed, so a call racing with inject may miss the rule

  mutable Mutex mutex_;
  std::condition_variable released_;
  std::vector<ActiveRule> rules_ ASHLAR_GUARDED_BY(mutex_);
  Random random_ ASHLAR_GUARDED_BY(mutex_);
  size_t hung_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  uint64_t release_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

}  // namespace ashlar::sim
