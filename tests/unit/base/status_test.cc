// SPDX-License-Identifier: Apache-2.0
//
// Tests of Status and Result.
#include "ashlar/status.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

TEST(StatusTest, OkHasNoDetails) {
  const Status ok;
  EXPECT_TRUE(ok.ok());
  EXPECT_EQ(ok.kind(), StatusKind::kOk);
  EXPECT_EQ(ok.message(), "");
  EXPECT_EQ(ok.to_string(), "ok");
}

TEST(StatusTest, FaultHasCallAndCode) {
  const Status fault = Status::device_fault("cuMemMap", 1, "invalid argument");
  EXPECT_EQ(fault.kind(), StatusKind::kDeviceFault);
  EXPECT_EQ(fault.failed_call(), "cuMemMap");
  EXPECT_EQ(fault.code(), 1);
  EXPECT_EQ(fault.to_string(), "device fault: invalid argument (cuMemMap, code 1)");
}

TEST(StatusTest, CopiesAreEqual) {
  const Status first = Status::invalid_argument("a size of 0 B");
  const Status second = first;
  EXPECT_EQ(second.message(), "a size of 0 B");
  EXPECT_TRUE(second.is(StatusKind::kInvalidArgument));
}

TEST(StatusTest, CopyOutlivesOriginal) {
  Status copy;
  {
    const Status original = Status::device_fault("cuMemMap", 1, "a message stored on the heap");
    copy = original;
  }
  EXPECT_EQ(copy.message(), "a message stored on the heap");
  EXPECT_EQ(copy.failed_call(), "cuMemMap");
}

TEST(StatusTest, HostOutOfMemoryIsNotDeviceOutOfMemory) {
  const Status exhausted = Status::host_out_of_memory();
  EXPECT_TRUE(exhausted.is(StatusKind::kHostOutOfMemory));
  EXPECT_FALSE(exhausted.is_out_of_memory());
  EXPECT_EQ(exhausted.to_string(), "out of host memory: no memory left");
}

TEST(StatusTest, DistinguishesOutOfMemory) {
  EXPECT_TRUE(Status::out_of_memory("full").is_out_of_memory());
  EXPECT_FALSE(Status::invalid_argument("full").is_out_of_memory());
  EXPECT_FALSE(Status().is_out_of_memory());
}

TEST(ResultTest, HoldsEitherValueOrError) {
  const Result<int> value = 7;
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(*value, 7);
  EXPECT_TRUE(value.status().ok());

  const Result<int> failure = Status::unsupported("no");
  EXPECT_FALSE(failure.ok());
  EXPECT_EQ(failure.status().kind(), StatusKind::kUnsupported);
}

TEST(ResultTest, MovesMoveOnlyValues) {
  Result<std::unique_ptr<int>> made = std::make_unique<int>(3);
  const std::unique_ptr<int> taken = *std::move(made);
  EXPECT_EQ(*taken, 3);
}

}  // namespace
}  // namespace ashlar
