// SPDX-License-Identifier: Apache-2.0
//
// What every call on a simulated device passes through: is the device lost, does a fault strike,
// and afterwards what the call cost. One per device. Thread safe.
#pragma once

#include <array>
#include <atomic>

#include "ashlar/sim.h"
#include "base/mutex.h"
#include "device/sim/cost_model.h"
#include "device/sim/faults.h"

namespace ashlar::sim {

class CallGate {
 public:
  CallGate(DeviceIndex device, Faults& faults) : device_(device), faults_(faults) {}

  // Ok, or why the call must fail.
  Status enter(DeviceCall call);
  // Adds the call to the account.
  void charge(DeviceCall call, const CallSize& size);

  bool is_lost() const { return lost_.load(std::memory_order_acquire); }
  Status lost_status() const;
  // The first reason stays.
  void lose(const Status& reason);
  void revive();

  CallCosts costs() const;
  void reset_costs();

 private:
  const DeviceIndex device_;
  Faults& faults_;
  std::atomic<bool> lost_{false};  // released after reason_ is set, acquired before it is read

  // Relaxed: sums, read for reports.
  std::array<std::atomic<uint64_t>, kDeviceCallCount> counts_{};
  std::array<std::atomic<int64_t>, kDeviceCallCount> modelled_ns_{};

  mutable Mutex mutex_;
  Status reason_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::sim
