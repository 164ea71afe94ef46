// SPDX-License-Identifier: Apache-2.0
//
// The table of back ends. A new back end adds one row: its name and the function that opens it.
#include "device/registry.h"

#include <array>

namespace ashlar {
namespace {

using OpenedDevices = Result<std::unique_ptr<DeviceSet>>;

OpenedDevices open_sim(const BackendOptions& options);
OpenedDevices open_cuda_devices(const BackendOptions& options);
OpenedDevices open_hip_devices(const BackendOptions& options);

struct BackendRow {
  std::string_view name;
  OpenedDevices (*open)(const BackendOptions& options);
};

constexpr std::array kBackends = {
    BackendRow{.name = "sim", .open = open_sim},
    BackendRow{.name = "cuda", .open = open_cuda_devices},
    BackendRow{.name = "hip", .open = open_hip_devices},
};

}  // namespace

Result<Registry> Registry::create(const BackendOptions& options) {
  std::vector<Backend> backends;
  for (const BackendRow& row : kBackends) {
    OpenedDevices opened = row.open(options);
    // Invalid options are the caller's error; any other failure makes the back end unavailable.
    if (opened.status().is(StatusKind::kInvalidArgument)) return opened.status();
    backends.emplace_back(row.name, std::move(opened));
  }
  return Registry(std::move(backends));
}

const Backend* Registry::find(std::string_view name) const {
  for (const Backend& backend : backends_) {
    if (backend.name() == name) return &backend;
  }
  return nullptr;
}

std::vector<Device*> Registry::devices() const {
  std::vector<Device*> all;
  for (const Backend& backend : backends_) {
    all.insert(all.end(), backend.devices().begin(), backend.devices().end());
  }
  return all;
}

Backend::Backend(std::string_view name, Result<std::unique_ptr<DeviceSet>> opened)
    : name_(name), availability_(opened.status()) {
  if (!opened.ok()) return;
  owner_ = std::move(*opened);
  for (size_t index = 0; index < owner_->device_count(); ++index) {
    devices_.push_back(&owner_->device(DeviceIndex(index)));
  }
}

namespace {

class SimDeviceSet final : public DeviceSet {
 public:
  explicit SimDeviceSet(std::unique_ptr<sim::Machine> machine) : machine_(std::move(machine)) {}
  size_t device_count() const override { return machine_->device_count(); }
  Device& device(DeviceIndex index) override { return machine_->device(index); }
  std::string_view driver(DeviceIndex) const override { return "sim"; }

 private:
  std::unique_ptr<sim::Machine> machine_;
};

OpenedDevices open_sim(const BackendOptions& options) {
  Result<std::unique_ptr<sim::Machine>> machine = sim::Machine::try_create(options.sim);
  if (!machine.ok()) return machine.status();
  return std::unique_ptr<DeviceSet>(std::make_unique<SimDeviceSet>(*std::move(machine)));
}

OpenedDevices open_cuda_devices(const BackendOptions& options) {
  return try_open_cuda(options.cuda);
}

OpenedDevices open_hip_devices(const BackendOptions& options) { return try_open_hip(options.hip); }

}  // namespace
}  // namespace ashlar
