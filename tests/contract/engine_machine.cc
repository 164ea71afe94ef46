// SPDX-License-Identifier: Apache-2.0
//
// The simulated machine by itself, and behind a stand-in driver; and a real one.
#include "engine_machine.h"

#include <functional>
#include <utility>

#include "ashlar/devices.h"
#include "device_contract.h"
#include "guarded_device.h"
#include "standin/control.h"
#include "stream_holder.h"

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
      : machine_(must(sim::Machine::try_create(two_devices(capacity_bytes)))) {}

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
      must(device(index).memory_stats());
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
    return device(index).memory_stats().status().is(StatusKind::kDeviceLost);
  }

 private:
  const standin::ControlTable& control_;
  std::unique_ptr<DeviceSet> devices_;
};

// Holds the streams of the device that is guarded.
struct Holding {
  std::function<Status(StreamId)> hold;
  std::function<Status(StreamId)> resume;
};

class GuardedMachine final : public EngineMachine {
 public:
  GuardedMachine(std::shared_ptr<DeviceSet> devices, Holding holding, size_t capacity_bytes)
      : devices_(std::move(devices)),
        holding_(std::move(holding)),
        guarded_(devices_->device(DeviceIndex(0)), capacity_bytes) {}

  Device& device(DeviceIndex index) override {
    if (index != DeviceIndex(0)) must(Status::invalid_argument("one device is guarded"));
    return guarded_;
  }
  bool has_two_devices() const override { return false; }
  Status hold(DeviceIndex, StreamId stream) override { return holding_.hold(stream); }
  Status resume(DeviceIndex, StreamId stream) override { return holding_.resume(stream); }
  void inject(const sim::FaultRule& rule) override { guarded_.faults().inject(rule); }
  void clear_faults() override { guarded_.faults().clear(); }
  void lose(DeviceIndex, const Status& reason) override { guarded_.set_lost(reason); }
  void revive(DeviceIndex) override { guarded_.set_lost({}); }
  bool is_lost(DeviceIndex) override { return false; }

 private:
  std::shared_ptr<DeviceSet> devices_;
  Holding holding_;
  GuardedDevice guarded_;
};

}  // namespace

std::unique_ptr<EngineMachine> simulated_machine(size_t capacity_bytes) {
  return std::make_unique<SimulatedMachine>(capacity_bytes);
}

std::unique_ptr<EngineMachine> cuda_stand_in_machine(size_t capacity_bytes) {
  return std::make_unique<StandInMachine>(try_open_cuda, ASHLAR_CUDA_STANDIN, capacity_bytes);
}

std::unique_ptr<EngineMachine> hip_stand_in_machine(size_t capacity_bytes) {
  return std::make_unique<StandInMachine>(try_open_hip, ASHLAR_HIP_STANDIN, capacity_bytes);
}

// A context takes long to make, so one serves all tests.
std::unique_ptr<EngineMachine> real_cuda_machine(size_t capacity_bytes) {
  static const std::shared_ptr<DeviceSet> devices = must(try_open_cuda());
  if (devices->device_count() == 0) must(Status::unsupported("the driver shows no device"));
  static StreamHolder holder(devices->device(DeviceIndex(0)));
  const Holding holding{[](StreamId stream) { return holder.hold(stream); },
                        [](StreamId stream) { return holder.resume(stream); }};
  return std::make_unique<GuardedMachine>(devices, holding, capacity_bytes);
}

std::unique_ptr<EngineMachine> guarded_stand_in_machine(size_t capacity_bytes) {
  const standin::ControlTable& control = standin::control_of(ASHLAR_CUDA_STANDIN);
  control.restart(two_devices(4 * capacity_bytes), {});
  const Holding holding{
      [&control](StreamId stream) { return control.hold(DeviceIndex(0), stream); },
      [&control](StreamId stream) { return control.resume(DeviceIndex(0), stream); }};
  return std::make_unique<GuardedMachine>(must(try_open_cuda({.library = ASHLAR_CUDA_STANDIN})),
                                          holding, capacity_bytes);
}

}  // namespace ashlar::contract
