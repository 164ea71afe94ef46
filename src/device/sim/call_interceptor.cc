// SPDX-License-Identifier: Apache-2.0
//
// Fails calls by the rules of the FaultInjector, and adds up their modelled cost.
#include "device/sim/call_interceptor.h"

#include "base/host_memory.h"

namespace ashlar::sim {

Status CallInterceptor::enter(DeviceCall call) {
  if (is_lost()) return lost_status();
  Status injected = faults_.apply(call, device_);
  if (injected.is(StatusKind::kDeviceLost)) lose(injected);
  return injected;
}

void CallInterceptor::charge(DeviceCall call, const CallSize& size) {
  const auto index = static_cast<size_t>(call);
  counts_[index].fetch_add(1, std::memory_order_relaxed);
  modelled_ns_[index].fetch_add(modelled_call_ns(call, size), std::memory_order_relaxed);
}

Status CallInterceptor::lost_status() const {
  MutexLock lock(mutex_);
  return reason_;
}

void CallInterceptor::lose(const Status& reason) noexcept {
  MutexLock lock(mutex_);
  if (is_lost()) return;
  reason_ = reason;
  if (!reason.is(StatusKind::kDeviceLost)) {
    const Status lost = without_bad_alloc(
        [&] { return Status::device_lost(reason.failed_call(), reason.code(), reason.message()); });
    reason_ = lost.is(StatusKind::kDeviceLost) ? lost : unexplained_loss_;
  }
  lost_.store(true, std::memory_order_release);
}

void CallInterceptor::revive() {
  MutexLock lock(mutex_);
  reason_ = {};
  lost_.store(false, std::memory_order_release);
}

CallCosts CallInterceptor::costs() const {
  CallCosts costs;
  for (size_t i = 0; i < kDeviceCallCount; ++i) {
    costs.count[i] = counts_[i].load(std::memory_order_relaxed);
    costs.modelled_ns[i] = modelled_ns_[i].load(std::memory_order_relaxed);
    costs.total_ns += costs.modelled_ns[i];
  }
  return costs;
}

void CallInterceptor::reset_costs() {
  for (size_t i = 0; i < kDeviceCallCount; ++i) {
    counts_[i].store(0, std::memory_order_relaxed);
    modelled_ns_[i].store(0, std::memory_order_relaxed);
  }
}

}  // namespace ashlar::sim
