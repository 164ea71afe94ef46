// SPDX-License-Identifier: Apache-2.0
//
// Tests of the usage and the process list in out-of-memory messages.
#include "engine/oom_report.h"

#include <unistd.h>

#include "device/forwarding_device.h"
#include "engine/classic/classic_engine.h"
#include "engine/paged/paged_engine.h"
#include "sim_fixture.h"

namespace ashlar {
namespace {

// A device with a given process list.
class ProcessListDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  Result<std::vector<ProcessMemoryUsage>> processes() override { return list; }

  Result<std::vector<ProcessMemoryUsage>> list = std::vector<ProcessMemoryUsage>{};
};

class DeviceProcessesTest : public SimFixture {
 protected:
  ProcessMemoryUsage self(size_t bytes) const { return {::getpid(), bytes}; }
  ProcessMemoryUsage other(int number, size_t bytes) const { return {::getpid() + number, bytes}; }
  std::string name(int number) const {
    return "process " + std::to_string(::getpid() + number) + " has ";
  }

  ProcessListDevice device_{[this]() -> Device& {
    make_machine();
    return machine_->device(kDevice);
  }()};
};

TEST(DescribeUsageTest, NamesMemoryOfPrivatePools) {
  EXPECT_EQ(describe_usage({2 * kGiB, 3 * kGiB, 512 * kMiB}),
            "2.00 GiB is allocated; 1.00 GiB is reserved but not allocated, of which 512.00 MiB is "
            "cached by private pools.");
}

// The blocks of a paused pool are allocated but not reserved.
TEST(DescribeUsageTest, ReservedMemoryMayBeLessThanAllocatedMemory) {
  EXPECT_EQ(describe_usage({3 * kGiB, 2 * kGiB, 512 * kMiB}),
            "3.00 GiB is allocated; 0 B is reserved but not allocated.");
}

TEST_F(DeviceProcessesTest, OmitsThisProcessWhenAlone) {
  device_.list = std::vector{self(2 * kGiB)};
  EXPECT_EQ(describe_device_processes(device_, 2 * kGiB), "");
}

TEST_F(DeviceProcessesTest, ReportsUseBeyondTheAllocator) {
  device_.list = std::vector{self(3 * kGiB)};
  EXPECT_EQ(describe_device_processes(device_, 2 * kGiB),
            " In total, this process uses 3.00 GiB of the device's memory.");
}

TEST_F(DeviceProcessesTest, ListsOthersLargestFirst) {
  device_.list = std::vector{other(1, kGiB), self(kGiB), other(2, 5 * kGiB)};
  EXPECT_EQ(
      describe_device_processes(device_, kGiB),
      " Other processes use the device as well: " + name(2) + "5.00 GiB, " + name(1) + "1.00 GiB.");
}

TEST_F(DeviceProcessesTest, LimitsTheList) {
  std::vector<ProcessMemoryUsage> many;
  for (int i = 1; i <= 6; ++i) many.push_back(other(i, kGiB));
  many.push_back(self(0));
  many.push_back(other(7, 0));  // has no memory, so it is not listed
  device_.list = many;
  EXPECT_EQ(describe_device_processes(device_, 0),
            " Other processes use the device as well: " + name(1) + "1.00 GiB, " + name(2) +
                "1.00 GiB, " + name(3) + "1.00 GiB, " + name(4) +
                "1.00 GiB, 2 more have 2.00 GiB.");
}

TEST_F(DeviceProcessesTest, AddsNothingWithoutProcessList) {
  device_.list = Status::unsupported("the driver does not tell");
  EXPECT_EQ(describe_device_processes(device_, 0), "");
}

// In a container, the listed PIDs may be those of the host, so any of them may be this process
// and none can be reported as another process.
TEST_F(DeviceProcessesTest, AddsNothingWhenOwnPidIsUnknown) {
  device_.list = std::vector{other(1, kGiB), other(2, kGiB)};
  EXPECT_EQ(describe_device_processes(device_, 0), "");
}

TEST_F(DeviceProcessesTest, PreservesTheAllocationError) {
  machine_->inject({.call = DeviceCall::kProcesses, .count = sim::FaultRule::kForever});
  paged::PagedEngine engine(machine_->device(kDevice), {});
  EXPECT_FALSE(engine.allocate({.bytes = kGiB - 4 * kMiB}).status().is_out_of_memory());
  EXPECT_TRUE(engine.allocate({.bytes = kGiB / 2}).status().is_out_of_memory());
  EXPECT_TRUE(machine_->device(kDevice).take_last_error().is_out_of_memory());
}

TEST_F(DeviceProcessesTest, AllEnginesReportProcesses) {
  device_.list = std::vector{self(0), other(1, 5 * kGiB)};
  const std::string said = name(1) + "5.00 GiB.";
  classic::ClassicEngine classic(device_, {});
  paged::PagedEngine paged(device_, {});
  for (Engine* engine : std::initializer_list<Engine*>{&classic, &paged}) {
    const size_t too_much = 2 * device_.properties().capacity_bytes;
    const Status allocation_error = engine->allocate({.bytes = too_much}).status();
    EXPECT_NE(allocation_error.message().find(said), std::string::npos)
        << allocation_error.message();
  }
}

// Other processes are irrelevant if the allocation exceeded this process's own limit.
TEST_F(DeviceProcessesTest, OmitsProcessesWhenDeviceHadEnough) {
  device_.list = std::vector{self(0), other(1, 5 * kGiB)};
  for (const bool reject : {false, true}) {
    AllocatorOptions options;
    options.reject_before_device_oom = reject;
    options.memory_fraction = 0.01;
    classic::ClassicEngine classic(device_, options);
    paged::PagedEngine paged(device_, options);
    for (Engine* engine : std::initializer_list<Engine*>{&classic, &paged}) {
      const Status allocation_error = engine->allocate({.bytes = kGiB / 2}).status();
      EXPECT_TRUE(allocation_error.is_out_of_memory());
      EXPECT_EQ(allocation_error.message().find(name(1)), std::string::npos)
          << allocation_error.message();
    }
  }
}

}  // namespace
}  // namespace ashlar
