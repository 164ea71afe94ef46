// SPDX-License-Identifier: Apache-2.0
//
// Creates simulated machines, machines on stand-in drivers, and one on the real device.
#include "engine_machine.h"

#include <functional>
#include <utility>

#include "ashlar/devices.h"
#include "device_contract.h"
#include "guarded_device.h"
#include "standin/control.h"
#include "stream_pauser.h"

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
      : machine_(require_ok(sim::Machine::try_create(two_devices(capacity_bytes)))) {}

  Device& device(DeviceIndex index) override { return machine_->device(index); }
  Status pause_stream(DeviceIndex device, StreamId stream) override {
    return machine_->pause_stream(device, stream);
  }
  Status resume_stream(DeviceIndex device, StreamId stream) override {
    return machine_->resume_stream(device, stream);
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
  StandInMachine(OpenDriver open, const char* library, size_t capacity_bytes,
                 const standin::Features& features = {})
      : control_(standin::control_of(library)) {
    control_.restart(two_devices(capacity_bytes), features);
    devices_ = require_ok(open({.library = library}));
    // The first call initializes each device, before tests inject faults.
    for (const DeviceIndex index : {DeviceIndex(0), DeviceIndex(1)}) {
      require_ok(device(index).memory_stats());
    }
  }

  Device& device(DeviceIndex index) override { return devices_->device(index); }
  Status pause_stream(DeviceIndex device, StreamId stream) override {
    return control_.pause_stream(device, stream);
  }
  Status resume_stream(DeviceIndex device, StreamId stream) override {
    return control_.resume_stream(device, stream);
  }
  void inject(const sim::FaultRule& rule) override { control_.inject(rule); }
  void clear_faults() override { control_.clear_faults(); }
  void lose(DeviceIndex device, const Status& reason) override { control_.lose(device, reason); }
  void revive(DeviceIndex) override {}
  bool stays_lost() const override { return true; }
  bool is_lost(DeviceIndex index) override {
    return device(index).memory_stats().status().is(StatusKind::kDeviceLost);
  }

 private:
  const standin::ControlTable& control_;
  std::unique_ptr<DeviceSet> devices_;
};

// Pauses and resumes streams of the guarded device.
struct StreamControl {
  std::function<Status(StreamId)> pause_stream;
  std::function<Status(StreamId)> resume_stream;
};

class GuardedMachine final : public EngineMachine {
 public:
  GuardedMachine(std::shared_ptr<DeviceSet> devices, StreamControl control, size_t capacity_bytes)
      : devices_(std::move(devices)),
        control_(std::move(control)),
        guarded_(devices_->device(DeviceIndex(0)), capacity_bytes) {}

  Device& device(DeviceIndex index) override {
    if (index != DeviceIndex(0))
      require_ok(Status::invalid_argument("only one device is available"));
    return guarded_;
  }
  bool has_two_devices() const override { return false; }
  Status pause_stream(DeviceIndex, StreamId stream) override {
    return control_.pause_stream(stream);
  }
  Status resume_stream(DeviceIndex, StreamId stream) override {
    return control_.resume_stream(stream);
  }
  void inject(const sim::FaultRule& rule) override { guarded_.fault_injector().inject(rule); }
  void clear_faults() override { guarded_.fault_injector().clear(); }
  void lose(DeviceIndex, const Status& reason) override { guarded_.set_lost(reason); }
  void revive(DeviceIndex) override { guarded_.set_lost({}); }
  bool is_lost(DeviceIndex) override { return false; }

 private:
  std::shared_ptr<DeviceSet> devices_;
  StreamControl control_;
  GuardedDevice guarded_;
};

}  // namespace

std::unique_ptr<EngineMachine> simulated_machine(size_t capacity_bytes) {
  return std::make_unique<SimulatedMachine>(capacity_bytes);
}

std::unique_ptr<EngineMachine> cuda_stand_in_machine(size_t capacity_bytes) {
  return std::make_unique<StandInMachine>(try_open_cuda, ASHLAR_CUDA_STANDIN, capacity_bytes);
}

std::unique_ptr<EngineMachine> lossy_alias_stand_in_machine(size_t capacity_bytes) {
  return std::make_unique<StandInMachine>(
      try_open_cuda, ASHLAR_CUDA_STANDIN, capacity_bytes,
      standin::Features{.alias = standin::AliasBehavior::kLosesStoresThroughSecond});
}

std::unique_ptr<EngineMachine> hip_stand_in_machine(size_t capacity_bytes) {
  return std::make_unique<StandInMachine>(try_open_hip, ASHLAR_HIP_STANDIN, capacity_bytes);
}

// All tests share the devices, because creating a context is slow.
std::unique_ptr<EngineMachine> real_cuda_machine(size_t capacity_bytes) {
  static const std::shared_ptr<DeviceSet> devices = require_ok(try_open_cuda());
  if (devices->device_count() == 0) require_ok(Status::unsupported("the driver shows no device"));
  static StreamPauser pauser(devices->device(DeviceIndex(0)));
  const StreamControl control{[](StreamId stream) { return pauser.pause_stream(stream); },
                              [](StreamId stream) { return pauser.resume_stream(stream); }};
  return std::make_unique<GuardedMachine>(devices, control, capacity_bytes);
}

std::unique_ptr<EngineMachine> guarded_stand_in_machine(size_t capacity_bytes) {
  const standin::ControlTable& driver = standin::control_of(ASHLAR_CUDA_STANDIN);
  driver.restart(two_devices(4 * capacity_bytes), {});
  const StreamControl control{
      [&driver](StreamId stream) { return driver.pause_stream(DeviceIndex(0), stream); },
      [&driver](StreamId stream) { return driver.resume_stream(DeviceIndex(0), stream); }};
  return std::make_unique<GuardedMachine>(
      require_ok(try_open_cuda({.library = ASHLAR_CUDA_STANDIN})), control, capacity_bytes);
}

}  // namespace ashlar::contract
