// SPDX-License-Identifier: Apache-2.0
//
// Tests HIP: the thread's current device, the runtime's last error, and AMD devices presented as
// cuda.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "ashlar/allocator.h"
#include "ashlar/devices.h"
#include "base/units.h"
#include "standin/control.h"

namespace ashlar {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void restart(const char* library, size_t device_count) {
  sim::Options options;
  options.device_count = device_count;
  options.capacity_bytes = kGiB;
  standin::control_of(library).restart(options, {});
}

template <typename... Arguments>
int call_hip(const char* name, Arguments... arguments) {
  void* library = dlopen(ASHLAR_HIP_STANDIN, RTLD_LAZY | RTLD_LOCAL);
  const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
  EXPECT_NE(function, nullptr) << name;
  return function == nullptr ? -1 : function(arguments...);
}

int current_device() {
  int device = -1;
  EXPECT_EQ(call_hip("hipGetDevice", &device), 0);
  return device;
}

class HipTest : public ::testing::Test {
 protected:
  void SetUp() override {
    restart(ASHLAR_HIP_STANDIN, 2);
    devices_ = *try_open_hip({.library = ASHLAR_HIP_STANDIN});
  }
  Device& device(size_t index = 0) { return devices_->device(DeviceIndex(index)); }

  std::unique_ptr<DeviceSet> devices_;
};

TEST_F(HipTest, DevicesReportTheHipBackEnd) {
  EXPECT_EQ(device(1).properties().backend, "hip");
  EXPECT_EQ(devices_->driver(DeviceIndex(1)), "hip");
  EXPECT_TRUE(device(1).properties().has_virtual_memory);
  EXPECT_EQ(device(1).properties().greatest_priority, 1);
}

TEST_F(HipTest, ReportsTheFirstMissingFunctions) {
  const auto opened = try_open_hip({.library = "libc.so.6"});
  EXPECT_THAT(opened.status().message(),
              AllOf(StartsWith("libc.so.6 has no hipGetErrorName, "), HasSubstr(" and others")));
}

TEST_F(HipTest, CallsRestoreTheThreadsDevice) {
  ASSERT_EQ(call_hip("hipSetDevice", 1), 0);
  const size_t before = device(1).memory_stats()->free_bytes;
  EXPECT_TRUE(device(0).allocate(kMiB).ok());
  EXPECT_FALSE(device(0).allocate(0).ok());
  EXPECT_EQ(current_device(), 1);
  EXPECT_EQ(device(1).memory_stats()->free_bytes, before);
  ASSERT_EQ(call_hip("hipSetDevice", 0), 0);
}

TEST_F(HipTest, FailuresDoNotSetTheRuntimesLastError) {
  EXPECT_TRUE(device().allocate(kGiB - kMiB).ok());
  EXPECT_EQ(device().allocate(kGiB - kMiB).status().kind(), StatusKind::kOutOfMemory);
  EXPECT_EQ(call_hip("hipGetLastError"), 0);
  EXPECT_THAT(device().last_error().message(), StartsWith("hipMalloc: hipErrorOutOfMemory"));
}

// --- accelerators

class AcceleratorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    restart(ASHLAR_CUDA_STANDIN, 1);
    restart(ASHLAR_HIP_STANDIN, 2);
    devices_ = *try_open_accelerators(
        {.cuda = {.library = ASHLAR_CUDA_STANDIN}, .hip = {.library = ASHLAR_HIP_STANDIN}});
  }
  Device& device(size_t index) { return devices_->device(DeviceIndex(index)); }

  std::unique_ptr<DeviceSet> devices_;
};

TEST_F(AcceleratorsTest, CombinesAllVendorsUnderOneName) {
  ASSERT_EQ(devices_->device_count(), 3U);
  const std::vector<std::string> drivers = {"cuda", "hip", "hip"};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(device(i).properties().backend, "cuda");
    EXPECT_EQ(device(i).properties().index, DeviceIndex(i));
    EXPECT_EQ(devices_->driver(DeviceIndex(i)), drivers[i]);
  }
  EXPECT_EQ(device(2).properties().pci_id, "0000:01:00.0") << "the second device of its vendor";
}

TEST_F(AcceleratorsTest, TranslatesDeviceIndices) {
  const Result<DeviceAddress> at = device(2).allocate(kMiB);
  EXPECT_EQ(device(1).describe(*at)->device, DeviceIndex(2));
  EXPECT_TRUE(*device(1).can_access_peer(DeviceIndex(2)));
  EXPECT_TRUE(device(1).enable_peer_access(DeviceIndex(2)).ok());
  EXPECT_TRUE(device(1).fill(*at, 1, kMiB, kDefaultStream).ok());
  EXPECT_TRUE(device(1).synchronize_device().ok());
  EXPECT_TRUE(device(1).disable_peer_access(DeviceIndex(2)).ok());
  EXPECT_FALSE(device(1).fill(*at, 1, kMiB, kDefaultStream).ok());
  const Result<DeviceAddress> from = device(1).allocate(kMiB);
  EXPECT_TRUE(device(1).copy_to_peer(DeviceIndex(2), *at, *from, kMiB, kDefaultStream).ok());
}

TEST_F(AcceleratorsTest, DevicesOfOtherVendorsAreNotPeers) {
  EXPECT_FALSE(*device(0).can_access_peer(DeviceIndex(1)));
  EXPECT_TRUE(device(0).last_error().ok()) << "the query must succeed";
  EXPECT_EQ(device(1).enable_peer_access(DeviceIndex(0)).kind(), StatusKind::kUnsupported);
  EXPECT_EQ(device(1).last_error().kind(), StatusKind::kUnsupported);
  EXPECT_EQ(device(1).enable_peer_access(DeviceIndex(3)).kind(), StatusKind::kInvalidArgument);
}

TEST_F(AcceleratorsTest, LastErrorIsTheLatestOfWrapperAndDriver) {
  EXPECT_FALSE(device(1).allocate(0).ok());
  EXPECT_FALSE(device(1).enable_peer_access(DeviceIndex(0)).ok());
  EXPECT_EQ(device(1).last_error().kind(), StatusKind::kUnsupported);
  EXPECT_FALSE(device(1).allocate(2 * kGiB).ok());
  EXPECT_EQ(device(1).take_last_error().kind(), StatusKind::kOutOfMemory);
  EXPECT_TRUE(device(1).take_last_error().ok());
}

TEST_F(AcceleratorsTest, AllocatorRunsOnADevicePresentedAsCuda) {
  for (size_t i = 0; i < 3; ++i) {
    Allocator allocator(device(i), {});
    const Buffer buffer = allocator.allocate(kMiB);
    EXPECT_TRUE(device(i).fill(buffer.address(), 1, kMiB, kDefaultStream).ok());
    EXPECT_TRUE(device(i).synchronize_device().ok());
  }
}

TEST(AcceleratorNameTest, AcceptsBothSpellingsOnly) {
  EXPECT_EQ(*try_parse_accelerator("cuda"), DeviceIndex(0));
  EXPECT_EQ(*try_parse_accelerator("cuda:3"), DeviceIndex(3));
  EXPECT_EQ(*try_parse_accelerator("hip:12"), DeviceIndex(12));
  for (const char* wrong : {"", "cuda:", "cuda:-1", "cuda:1x", "cuda1", "sim:0", "CUDA:0",
                            "cuda:99999999999999999999999"}) {
    EXPECT_EQ(try_parse_accelerator(wrong).status().kind(), StatusKind::kInvalidArgument) << wrong;
  }
}

TEST(AcceleratorNameTest, ReportsAllReasonsWithoutAnyDriver) {
  const auto opened = try_open_accelerators(
      {.cuda = {.library = "libashlar_none_1.so"}, .hip = {.library = "libashlar_none_2.so"}});
  EXPECT_EQ(opened.status().kind(), StatusKind::kUnsupported);
  EXPECT_THAT(opened.status().message(), AllOf(HasSubstr("no CUDA driver: libashlar_none_1.so"),
                                               HasSubstr("no HIP driver: libashlar_none_2.so")));
}

}  // namespace
}  // namespace ashlar
