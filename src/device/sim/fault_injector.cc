// SPDX-License-Identifier: Apache-2.0
//
// Counts matching calls, and selects the calls that a rule applies to.
#include "device/sim/fault_injector.h"

#include "base/text.h"

namespace ashlar::sim {

void FaultInjector::inject(FaultRule rule) {
  MutexLock lock(mutex_);
  rules_.push_back({std::move(rule), 0});
  any_rule_.store(true, std::memory_order_relaxed);
}

void FaultInjector::clear() {
  MutexLock lock(mutex_);
  rules_.clear();
  any_rule_.store(false, std::memory_order_relaxed);
}

Status FaultInjector::apply(DeviceCall call, DeviceIndex device) {
  if (!any_rule_.load(std::memory_order_relaxed)) return {};
  FaultRule picked;
  if (!pick(call, device, picked)) return {};
  switch (picked.action) {
    case FaultAction::kFail:
      if (!picked.status.ok()) return picked.status;
      return Status::device_fault(name(call), 999, "injected fault");
    case FaultAction::kDelay: clock_.sleep_ns(picked.delay.count()); return {};
    case FaultAction::kHang: hang(); return {};
    case FaultAction::kLoseDevice:
      return Status::device_lost(name(call), 999, text("injected loss of device ", device));
  }
  return {};
}

bool FaultInjector::pick(DeviceCall call, DeviceIndex device, FaultRule& picked) {
  MutexLock lock(mutex_);
  bool found = false;
  for (ActiveRule& active : rules_) {
    const FaultRule& rule = active.rule;
    if (rule.call && *rule.call != call) continue;
    if (rule.device && *rule.device != device) continue;
    ++active.match_count;
    const bool is_due =
        active.match_count >= rule.nth && active.match_count - rule.nth < rule.count;
    if (!is_due || found) continue;
    if (rule.probability < 1.0 && random_.fraction() >= rule.probability) continue;
    picked = rule;
    found = true;
  }
  return found;
}

void FaultInjector::hang() {
  MutexLock lock(mutex_);
  ++hung_count_;
  const uint64_t before = release_count_;
  while (release_count_ == before) lock.wait(released_);
  --hung_count_;
}

void FaultInjector::release_hung_calls() {
  MutexLock lock(mutex_);
  ++release_count_;
  released_.notify_all();
}

size_t FaultInjector::hung_call_count() const {
  MutexLock lock(mutex_);
  return hung_count_;
}

}  // namespace ashlar::sim
