// SPDX-License-Identifier: Apache-2.0
//
// What the engines' contract suite runs on: two devices that are the test's alone (one, where that
// is all there is), with streams that can be held and calls that can be made to fail.
#pragma once

#include <memory>
#include <optional>

#include "ashlar/device.h"
#include "ashlar/sim.h"

namespace ashlar::contract {

// See sim::Machine, whose functions these are.
class EngineMachine {
 public:
  virtual ~EngineMachine() = default;
  virtual Device& device(DeviceIndex index) = 0;
  virtual Status hold(DeviceIndex device, StreamId stream) = 0;
  virtual Status resume(DeviceIndex device, StreamId stream) = 0;
  virtual void inject(const sim::FaultRule& rule) = 0;
  virtual void clear_faults() = 0;
  virtual void lose(DeviceIndex device, const Status& reason) = 0;
  // Makes it well again, unless devices stay lost here.
  virtual void revive(DeviceIndex device) = 0;
  virtual bool stays_lost() const { return false; }
  virtual bool has_two_devices() const { return true; }
  virtual bool is_lost(DeviceIndex device) = 0;
  // What was called so far. Nothing: that cannot be told here.
  virtual std::optional<sim::CallCosts> costs(DeviceIndex) { return std::nullopt; }
};

std::unique_ptr<EngineMachine> simulated_machine(size_t capacity_bytes);
// A vendor's back end over its stand-in driver. The next one replaces it.
std::unique_ptr<EngineMachine> cuda_stand_in_machine(size_t capacity_bytes);
std::unique_ptr<EngineMachine> hip_stand_in_machine(size_t capacity_bytes);
// The first device of the real CUDA driver, guarded (`guarded_device.h`).
std::unique_ptr<EngineMachine> real_cuda_machine(size_t capacity_bytes);
// The same over the stand-in driver, which shows that the guard is none of an engine's business.
std::unique_ptr<EngineMachine> guarded_stand_in_machine(size_t capacity_bytes);

}  // namespace ashlar::contract
