// SPDX-License-Identifier: Apache-2.0
//
// Failing on purpose: the rules of `sim::FaultRule`, applied to each call as it comes in.
// Thread safe; without rules it costs one atomic load.
#pragma once

#include <atomic>
#include <condition_variable>
#include <vector>

#include "ashlar/sim.h"
#include "base/mutex.h"
#include "base/random.h"

namespace ashlar::sim {

class Faults {
 public:
  Faults(uint64_t seed, Clock& clock) : clock_(clock), random_(seed) {}

  void inject(FaultRule rule);
  void clear();

  // What is to become of this call: ok, a failure to return, or a kDeviceLost to keep. Delays and
  // hangs happen inside.
  Status apply(DeviceCall call, DeviceIndex device);

  // Lets every call go on that hangs now.
  void release_hangs();
  size_t hanging_count() const;

 private:
  struct ActiveRule {
    FaultRule rule;
    uint64_t seen = 0;  // calls that matched so far
  };
  // The first rule that picks the call, if any; every rule counts it.
  bool pick(DeviceCall call, DeviceIndex device, FaultRule& picked);
  void hang();

  Clock& clock_;
  std::atomic<bool> any_rule_{false};  // relaxed: a call racing with inject may miss the rule

  mutable Mutex mutex_;
  std::condition_variable released_;
  std::vector<ActiveRule> rules_ ASHLAR_GUARDED_BY(mutex_);
  Random random_ ASHLAR_GUARDED_BY(mutex_);
  size_t hanging_ ASHLAR_GUARDED_BY(mutex_) = 0;
  uint64_t release_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

}  // namespace ashlar::sim
