// SPDX-License-Identifier: Apache-2.0
//
// Intercepts every call on one simulated device: fails calls on a lost device, injects faults, and
// adds up the modelled cost. Thread safe.
#pragma once

#include <array>
#include <atomic>

#include "ashlar/sim.h"
#include "base/mutex.h"
#include "device/sim/cost_model.h"
#include "device/sim/fault_injector.h"

namespace ashlar::sim {

class CallInterceptor {
 public:
  CallInterceptor(DeviceIndex device, FaultInjector& faults) : device_(device), faults_(faults) {}

  // Called at the beginning of each device call. If the result is not ok, the device call must fail
  // with that status.
  Status enter(DeviceCall call);
  // Counts a successful call and adds its modelled cost.
  void charge(DeviceCall call, const CallSize& size);

  bool is_lost() const { return lost_.load(std::memory_order_acquire); }
  Status lost_status() const;
  // Marks the device as lost. If called again, keeps the first reason.
  void lose(const Status& reason) noexcept;
  void revive();

  CallCosts costs() const;
  void reset_costs();

 private:
  const DeviceIndex device_;
  FaultInjector& faults_;
  std::atomic<bool> lost_{false};  // stored with release after reason_, loaded with acquire

  // Accessed in relaxed order, because these are independent sums for reports.
  std::array<std::atomic<uint64_t>, kDeviceCallCount> counts_{};
  std::array<std::atomic<int64_t>, kDeviceCallCount> modelled_ns_{};

  // The reason if host memory is exhausted when the device is lost. Created in advance, because
  // creating it allocates memory.
  const Status unexplained_loss_ =
      Status::device_lost("work", 0, "the device failed while host memory was exhausted");

  mutable Mutex mutex_;
  Status reason_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::sim
