// SPDX-License-Identifier: Apache-2.0
//
// Multicast on devices of the cuda back end: the driver's calls as they are asked for, what is
// refused, and that nothing is left of it.
#include "device/gpu/gpu_device.h"
#include "standin/control.h"
#include "unit/device/gpu_fixture.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;

class CudaMulticastTest : public CudaTest {
 protected:
  gpu::GpuDevice& gpu(uint64_t index) { return dynamic_cast<gpu::GpuDevice&>(device(index)); }
  gpu::Handle object_of(gpu::GpuDevice& on, int device_count) {
    gpu::Driver::Multicast wanted;
    wanted.device_count = device_count;
    wanted.bytes = kGranule;
    wanted.export_fd = true;
    wanted.export_fabric = true;
    return *on.create_multicast(wanted);
  }
  static size_t object_count() {
    return standin::control_of(ASHLAR_CUDA_STANDIN).multicast_count();
  }
  static void tell(const char* call, int code) {
    standin::control_of(ASHLAR_CUDA_STANDIN).tell(call, code);
  }
};

TEST_F(CudaMulticastTest, TwoDevicesOfAProcessJoinBindMapAndUndo) {
  const gpu::Handle created = object_of(gpu(0), 2);
  const UniqueFd fd = *gpu(0).export_multicast_fd(created);
  const FabricHandle far = *gpu(0).export_multicast_fabric(created);
  const gpu::Handle objects[] = {*gpu(0).import_multicast_fd(fd.get()),
                                 *gpu(1).import_multicast_fabric(far)};
  for (const uint64_t each : {0U, 1U}) ASSERT_TRUE(gpu(each).add_to_multicast(objects[each]).ok());
  for (const uint64_t each : {0U, 1U}) {
    const ExtentId extent = *device(each).create(kGranule, {.export_fd = true});
    ASSERT_TRUE(gpu(each).bind_multicast(objects[each], extent).ok());
    const Result<AddressRange> range = gpu(each).map_multicast(objects[each], kGranule);
    ASSERT_TRUE(range.ok()) << range.status().to_string();
    // Nothing but kernels knows what to do with such addresses.
    EXPECT_EQ(device(each).fill(range->begin, 0, 16, kDefaultStream).kind(),
              StatusKind::kInvalidArgument);
    EXPECT_FALSE(gpu(each).release_multicast(objects[each]).ok());
    EXPECT_TRUE(gpu(each).unmap_multicast(*range).ok());
    EXPECT_TRUE(gpu(each).unbind_multicast(objects[each], kGranule).ok());
    EXPECT_TRUE(gpu(each).release_multicast(objects[each]).ok());
    EXPECT_TRUE(device(each).release(extent).ok());
  }
  EXPECT_TRUE(gpu(0).release_multicast(created).ok());
  EXPECT_EQ(object_count(), 0U);
}

TEST_F(CudaMulticastTest, ADeviceTakesPartOnceAndNobodyBindsBeforeAllDo) {
  const gpu::Handle object = object_of(gpu(0), 2);
  ASSERT_TRUE(gpu(0).add_to_multicast(object).ok());
  EXPECT_THAT(gpu(0).add_to_multicast(object).message(), HasSubstr("cuMulticastAddDevice"));
  const ExtentId extent = *device(0).create(kGranule, {.export_fd = true});
  EXPECT_FALSE(gpu(0).bind_multicast(object, extent).ok());
  EXPECT_FALSE(gpu(0).map_multicast(object, kGranule).ok());
  EXPECT_EQ(gpu(0).bind_multicast(object, ExtentId(12345)).kind(), StatusKind::kInvalidArgument);
  EXPECT_TRUE(device(0).release(extent).ok());
  EXPECT_TRUE(gpu(0).release_multicast(object).ok());
}

TEST_F(CudaMulticastTest, AMappingThatFailsHalfwayKeepsNoAddresses) {
  const gpu::Handle object = object_of(gpu(0), 1);
  ASSERT_TRUE(gpu(0).add_to_multicast(object).ok());
  for (const char* call : {"cuMemMap", "cuMemSetAccess"}) {
    tell(call, standin::kUnknown);
    const Status failed = gpu(0).map_multicast(object, kGranule).status();
    EXPECT_THAT(failed.call(), HasSubstr(call));
    tell(call, standin::kDone);
  }
  const Result<AddressRange> range = gpu(0).map_multicast(object, kGranule);
  ASSERT_TRUE(range.ok()) << "it is still mapped: " << range.status().to_string();
  EXPECT_TRUE(gpu(0).unmap_multicast(*range).ok());
  EXPECT_TRUE(gpu(0).release_multicast(object).ok());
}

TEST_F(CudaMulticastTest, ADeviceWithoutItSaysWhy) {
  EXPECT_TRUE(gpu(0).multicast_availability().ok());
  restart({.multicast = false});
  const Status none = gpu(0).multicast_availability();
  EXPECT_EQ(none.kind(), StatusKind::kUnsupported);
  EXPECT_THAT(none.message(), HasSubstr("this device has none"));
  const auto old = try_open_cuda({.library = ASHLAR_OLD_CUDA_STANDIN});
  ASSERT_TRUE(old.ok()) << old.status().to_string();
  auto& before = dynamic_cast<gpu::GpuDevice&>((*old)->device(DeviceIndex(0)));
  EXPECT_THAT(before.multicast_availability().message(), HasSubstr("CUDA 12.1 is the first"));
  EXPECT_TRUE(before.allocate(kGranule).ok());
  const auto hip = try_open_hip({.library = ASHLAR_HIP_STANDIN});
  auto& other = dynamic_cast<gpu::GpuDevice&>((*hip)->device(DeviceIndex(0)));
  EXPECT_EQ(other.multicast_availability().kind(), StatusKind::kUnsupported);
}

}  // namespace
}  // namespace ashlar
