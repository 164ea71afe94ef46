// SPDX-License-Identifier: Apache-2.0
//
// Opens all devices of one driver as a set.
#include <vector>

#include "base/check.h"
#include "device/gpu/driver_errors.h"
#include "device/gpu/gpu_device.h"

namespace ashlar::gpu {
namespace {

class GpuDeviceSet final : public DeviceSet {
 public:
  GpuDeviceSet(std::unique_ptr<Driver> driver, std::vector<DeviceInfo> info)
      : backend_(std::move(driver), info.size()) {
    for (size_t i = 0; i < info.size(); ++i) {
      devices_.push_back(std::make_unique<GpuDevice>(backend_, DeviceIndex(i), std::move(info[i])));
      backend_.devices.push_back(devices_.back().get());
    }
  }

  size_t device_count() const override { return devices_.size(); }
  Device& device(DeviceIndex index) override {
    ASHLAR_CHECK(index.value() < devices_.size());
    return *devices_[index.value()];
  }
  std::string_view driver(DeviceIndex) const override { return backend_.driver->backend(); }

 private:
  BackendState backend_;
  std::vector<std::unique_ptr<GpuDevice>> devices_;
};

}  // namespace

Result<std::unique_ptr<DeviceSet>> open_devices(std::unique_ptr<Driver> driver) {
  int count = 0;
  if (const DriverResult queried = driver->device_count(count); !queried.ok()) {
    return Status::unsupported(explain(*driver, queried));
  }
  std::vector<DeviceInfo> info(static_cast<size_t>(count < 0 ? 0 : count));
  for (size_t i = 0; i < info.size(); ++i) {
    const DriverResult queried = driver->query_device(static_cast<int>(i), info[i]);
    if (!queried.ok()) return Status::unsupported(explain(*driver, queried));
  }
  return std::unique_ptr<DeviceSet>(
      std::make_unique<GpuDeviceSet>(std::move(driver), std::move(info)));
}

}  // namespace ashlar::gpu
