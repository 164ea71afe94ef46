// SPDX-License-Identifier: Apache-2.0
//
// A fixture with the cuda back end on its stand-in driver. Tests can also call the driver directly,
// like another library in the process.
#pragma once

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "ashlar/devices.h"
#include "base/units.h"
#include "device/cuda/cuda_driver.h"
#include "standin/control.h"

namespace ashlar {

class CudaTest : public ::testing::Test {
 protected:
  static constexpr size_t kGranule = 2 * kMiB;

  void SetUp() override { restart({}); }

  // Closes the devices and restarts the driver with a new machine.
  void restart(const standin::Features& features) {
    devices_.reset();
    sim::Options options;
    options.capacity_bytes = kGiB;
    options.granularity_bytes = kGranule;
    control().restart(options, features);
  }
  static const standin::ControlTable& control() { return standin::control_of(ASHLAR_CUDA_STANDIN); }

  void open(const DriverOptions& options = {.library = ASHLAR_CUDA_STANDIN,
                                            .monitor_library = ASHLAR_CUDA_STANDIN}) {
    Result<std::unique_ptr<DeviceSet>> opened = try_open_cuda(options);
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    devices_ = *std::move(opened);
  }
  Device& device(size_t index = 0) {
    if (devices_ == nullptr) open();
    return devices_->device(DeviceIndex(index));
  }

  // Calls the driver function called `name`.
  template <typename... Arguments>
  static int driver(const char* name, Arguments... arguments) {
    void* library = dlopen(ASHLAR_CUDA_STANDIN, RTLD_LAZY | RTLD_LOCAL);
    const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
    EXPECT_NE(function, nullptr) << name;
    return function == nullptr ? -1 : function(arguments...);
  }
  static cuda::Context current_context() {
    cuda::Context current = nullptr;
    EXPECT_EQ(driver("cuCtxGetCurrent", &current), 0);
    return current;
  }

  std::unique_ptr<DeviceSet> devices_;
};

}  // namespace ashlar
