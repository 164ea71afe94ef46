// SPDX-License-Identifier: Apache-2.0
//
// Tests multicast objects of the cuda back end: use, errors, and release of all resources.
#include "device/gpu/gpu_multicast.h"
#include "standin/control.h"
#include "unit/device/gpu_fixture.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;

class CudaMulticastTest : public CudaTest {
 protected:
  gpu::GpuMulticast multicast(uint64_t index) {
    return gpu::GpuMulticast(dynamic_cast<gpu::GpuDevice&>(device(index)));
  }
  gpu::Handle create_object(gpu::GpuMulticast multicast, int device_count) {
    gpu::Driver::MulticastRequest wanted;
    wanted.device_count = device_count;
    wanted.bytes = kGranule;
    wanted.can_export_fd = true;
    wanted.can_export_fabric = true;
    return *multicast.create(wanted);
  }
  static size_t object_count() {
    return standin::control_of(ASHLAR_CUDA_STANDIN).multicast_count();
  }
  static void set_result(const char* call, int code) {
    standin::control_of(ASHLAR_CUDA_STANDIN).set_result(call, code);
  }
};

TEST_F(CudaMulticastTest, TwoDevicesShareAMulticastObject) {
  const gpu::Handle created = create_object(multicast(0), 2);
  const UniqueFd fd = *multicast(0).export_fd(created);
  const FabricHandle far = *multicast(0).export_fabric(created);
  const gpu::Handle objects[] = {*multicast(0).import_fd(fd.get()),
                                 *multicast(1).import_fabric(far)};
  for (const uint64_t each : {0U, 1U}) ASSERT_TRUE(multicast(each).add_device(objects[each]).ok());
  for (const uint64_t each : {0U, 1U}) {
    const ExtentId extent = *device(each).create(kGranule, {.can_export_fd = true});
    ASSERT_TRUE(multicast(each).bind(objects[each], extent).ok());
    const Result<AddressRange> range = multicast(each).map(objects[each], kGranule);
    ASSERT_TRUE(range.ok()) << range.status().to_string();
    // Only kernels may use multicast addresses, so a fill is rejected.
    EXPECT_EQ(device(each).fill(range->begin, 0, 16, kDefaultStream).kind(),
              StatusKind::kInvalidArgument);
    EXPECT_FALSE(multicast(each).release(objects[each]).ok());
    EXPECT_TRUE(multicast(each).unmap(*range).ok());
    EXPECT_TRUE(multicast(each).unbind(objects[each], kGranule).ok());
    EXPECT_TRUE(multicast(each).release(objects[each]).ok());
    EXPECT_TRUE(device(each).release(extent).ok());
  }
  EXPECT_TRUE(multicast(0).release(created).ok());
  EXPECT_EQ(object_count(), 0U);
}

TEST_F(CudaMulticastTest, BindAndMapRequireAllDevices) {
  const gpu::Handle object = create_object(multicast(0), 2);
  ASSERT_TRUE(multicast(0).add_device(object).ok());
  EXPECT_THAT(multicast(0).add_device(object).message(), HasSubstr("cuMulticastAddDevice"));
  const ExtentId extent = *device(0).create(kGranule, {.can_export_fd = true});
  EXPECT_FALSE(multicast(0).bind(object, extent).ok());
  EXPECT_FALSE(multicast(0).map(object, kGranule).ok());
  EXPECT_EQ(multicast(0).bind(object, ExtentId(12345)).kind(), StatusKind::kInvalidArgument);
  EXPECT_TRUE(device(0).release(extent).ok());
  EXPECT_TRUE(multicast(0).release(object).ok());
}

TEST_F(CudaMulticastTest, FailedMapReleasesItsAddresses) {
  const gpu::Handle object = create_object(multicast(0), 1);
  ASSERT_TRUE(multicast(0).add_device(object).ok());
  for (const char* call : {"cuMemMap", "cuMemSetAccess"}) {
    set_result(call, standin::kUnknown);
    const Status failed = multicast(0).map(object, kGranule).status();
    EXPECT_THAT(failed.failed_call(), HasSubstr(call));
    set_result(call, standin::kDone);
  }
  const Result<AddressRange> range = multicast(0).map(object, kGranule);
  ASSERT_TRUE(range.ok()) << "the failed map leaked: " << range.status().to_string();
  EXPECT_TRUE(multicast(0).unmap(*range).ok());
  EXPECT_TRUE(multicast(0).release(object).ok());
}

TEST_F(CudaMulticastTest, ReportsWhyMulticastIsUnavailable) {
  EXPECT_TRUE(multicast(0).availability().ok());
  restart({.multicast = false});
  const Status none = multicast(0).availability();
  EXPECT_EQ(none.kind(), StatusKind::kUnsupported);
  EXPECT_THAT(none.message(), HasSubstr("this device has no multicast"));
  const auto old = try_open_cuda({.library = ASHLAR_OLD_CUDA_STANDIN});
  ASSERT_TRUE(old.ok()) << old.status().to_string();
  auto& before = dynamic_cast<gpu::GpuDevice&>((*old)->device(DeviceIndex(0)));
  EXPECT_THAT(gpu::GpuMulticast(before).availability().message(),
              HasSubstr("version 12.1 or later"));
  EXPECT_TRUE(before.allocate(kGranule).ok());
  const auto hip = try_open_hip({.library = ASHLAR_HIP_STANDIN});
  auto& other = dynamic_cast<gpu::GpuDevice&>((*hip)->device(DeviceIndex(0)));
  EXPECT_EQ(gpu::GpuMulticast(other).availability().kind(), StatusKind::kUnsupported);
}

}  // namespace
}  // namespace ashlar
