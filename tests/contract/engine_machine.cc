// The simulated machine by itself, and behind a stand-in driver.
#include "engine_machine.h"

#include <utility>

#include "ashlar/devices.h"
#include "device_contract.h"
#include "standin/control.h"

namespace ashlar::contract {
namespace {

sim::Options two_devices(size_t capacity_bytes) {
  sim::Options options;
  options.device_count = 2;
  options.capacity_bytes = capacity_bytes;
  return options;
}

class SimulatedMachine final : public EngineMachine {
 public:
  explicit SimulatedMachine(size_t capacity_bytes)
      : machine_(must(sim::Machine::create(two_devices(capacity_bytes)))) {}

  Device& device(DeviceIndex index) override { return machine_->device(index); }
  Status hold(DeviceIndex device, StreamId stream) override {
    return machine_->hold(device, stream);
  }
  Status resume(DeviceIndex device, StreamId stream) override {
    return machine_->resume(device, stream);
  }
  void inject(const sim::FaultRule& rule) override { machine_->inject(rule); }
  void clear_faults() override { machine_->clear_faults(); }
  void lose(DeviceIndex device, const Status& reason) override { machine_->lose(device, reason); }
  void revive(DeviceIndex device) override { machine_->revive(device); }
  bool is_lost(DeviceIndex) override { return false; }
  std::optional<sim::CallCosts> costs(DeviceIndex device) override {
    return machine_->costs(device);
  }

 private:
  std::unique_ptr<sim::Machine> machine_;
};

using OpenDriver = Result<std::unique_ptr<DeviceSet>> (*)(const DriverOptions& options);

class StandInMachine final : public EngineMachine {
 public:
  StandInMachine(OpenDriver open, const char* library, size_t capacity_bytes)
      : control_(standin::control_of(library)) {
    control_.restart(two_devices(capacity_bytes), {});
    devices_ = must(open({.library = library}));
    // Taken into use before anything is made to fail.
    for (const DeviceIndex index : {DeviceIndex(0), DeviceIndex(1)}) {
      must(device(index).memory_use());
    }
  }

  Device& device(DeviceIndex index) override { return devices_->device(index); }
  Status hold(DeviceIndex device, StreamId stream) override {
    return control_.hold(device, stream);
  }
  Status resume(DeviceIndex device, StreamId stream) override {
    return control_.resume(device, stream);
  }
  void inject(const sim::FaultRule& rule) override { control_.inject(rule); }
  void clear_faults() override { control_.clear_faults(); }
  void lose(DeviceIndex device, const Status& reason) override { control_.lose(device, reason); }
  void revive(DeviceIndex) override {}
  bool stays_lost() const override { return true; }
  bool is_lost(DeviceIndex index) override {
    return device(index).memory_use().status().is(StatusKind::kDeviceLost);
  }

 private:
  const standin::ControlTable& control_;
  std::unique_ptr<DeviceSet> devices_;
};

}  // namespace

std::unique_ptr<EngineMachine> simulated_machine(size_t capacity_bytes) {
  return std::make_unique<SimulatedMachine>(capacity_bytes);
}

std::unique_ptr<EngineMachine> cuda_stand_in_machine(size_t capacity_bytes) {
  return std::make_unique<StandInMachine>(open_cuda, ASHLAR_CUDA_STANDIN, capacity_bytes);
}

std::unique_ptr<EngineMachine> hip_stand_in_machine(size_t capacity_bytes) {
  return std::make_unique<StandInMachine>(open_hip, ASHLAR_HIP_STANDIN, capacity_bytes);
}

}  // namespace ashlar::contract
