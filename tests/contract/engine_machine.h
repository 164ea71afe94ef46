// SPDX-License-Identifier: Apache-2.0
//
// The machine of the engine contract: one or two devices for exclusive use, with streams that can
// be paused and calls that can be made to fail.
#pragma once

#include <memory>
#include <optional>

#include "ashlar/device.h"
#include "ashlar/sim.h"

namespace ashlar::contract {

// Functions with the same names as functions of sim::Machine have the same meaning.
class EngineMachine {
 public:
  virtual ~EngineMachine() = default;
  virtual Device& device(DeviceIndex index) = 0;
  virtual Status pause_stream(DeviceIndex device, StreamId stream) = 0;
  virtual Status resume_stream(DeviceIndex device, StreamId stream) = 0;
  virtual void inject(const sim::FaultRule& rule) = 0;
  virtual void clear_faults() = 0;
  virtual void lose(DeviceIndex device, const Status& reason) = 0;
  // Makes the device usable again, unless stays_lost().
  virtual void revive(DeviceIndex device) = 0;
  virtual bool stays_lost() const { return false; }
  virtual bool has_two_devices() const { return true; }
  virtual bool is_lost(DeviceIndex device) = 0;
  // Returns the device calls so far; nullopt if they are not counted.
  virtual std::optional<sim::CallCosts> costs(DeviceIndex) { return std::nullopt; }
};

std::unique_ptr<EngineMachine> simulated_machine(size_t capacity_bytes);
// Opens a vendor's back end on its stand-in driver. Each call restarts the driver.
std::unique_ptr<EngineMachine> cuda_stand_in_machine(size_t capacity_bytes);
std::unique_ptr<EngineMachine> hip_stand_in_machine(size_t capacity_bytes);
// Opens a CUDA driver that accepts two mappings of one extent but loses stores through the second
// mapping.
std::unique_ptr<EngineMachine> lossy_alias_stand_in_machine(size_t capacity_bytes);
// Opens the first device of the real CUDA driver, wrapped in a `GuardedDevice`.
std::unique_ptr<EngineMachine> real_cuda_machine(size_t capacity_bytes);
// Opens a `GuardedDevice` on the stand-in driver, to test the guard itself.
std::unique_ptr<EngineMachine> guarded_stand_in_machine(size_t capacity_bytes);

}  // namespace ashlar::contract
