// SPDX-License-Identifier: Apache-2.0
//
// Asking the driver for its devices, and owning them.
#include "device/gpu/gpu_devices.h"

#include <vector>

#include "base/check.h"
#include "device/gpu/driver_errors.h"
#include "device/gpu/gpu_device.h"

namespace ashlar::gpu {
namespace {

class GpuDevices final : public DeviceSet {
 public:
  GpuDevices(std::unique_ptr<Driver> driver, std::vector<DeviceFacts> facts)
      : common_(std::move(driver), facts.size()) {
    for (size_t i = 0; i < facts.size(); ++i) {
      devices_.push_back(std::make_unique<GpuDevice>(common_, DeviceIndex(i), std::move(facts[i])));
      common_.devices.push_back(devices_.back().get());
    }
  }

  size_t device_count() const override { return devices_.size(); }
  Device& device(DeviceIndex index) override {
    ASHLAR_CHECK(index.value() < devices_.size());
    return *devices_[index.value()];
  }
  std::string_view driver(DeviceIndex) const override { return common_.driver->backend(); }

 private:
  Common common_;
  std::vector<std::unique_ptr<GpuDevice>> devices_;
};

}  // namespace

Result<std::unique_ptr<DeviceSet>> open_devices(std::unique_ptr<Driver> driver) {
  int count = 0;
  if (const Outcome asked = driver->device_count(count); !asked.ok()) {
    return Status::unsupported(explain(*driver, asked));
  }
  std::vector<DeviceFacts> facts(static_cast<size_t>(count < 0 ? 0 : count));
  for (size_t i = 0; i < facts.size(); ++i) {
    const Outcome looked = driver->look_at(static_cast<int>(i), facts[i]);
    if (!looked.ok()) return Status::unsupported(explain(*driver, looked));
  }
  return std::unique_ptr<DeviceSet>(
      std::make_unique<GpuDevices>(std::move(driver), std::move(facts)));
}

}  // namespace ashlar::gpu
