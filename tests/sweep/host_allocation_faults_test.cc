// SPDX-License-Identifier: Apache-2.0
//
// Tests which allocations a HostAllocationFault fails.
#include "sweep/host_allocation_faults.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "ashlar/status.h"

namespace ashlar::sweep {
namespace {

TEST(HostAllocationFaultTest, FailsOnlyTheNthAllocation) {
  const HostAllocationFault fault(2);
  const auto first = std::make_unique<int>(1);
  EXPECT_FALSE(fault.has_failed());
  EXPECT_THROW(static_cast<void>(std::make_unique<int>(2)), std::bad_alloc);
  EXPECT_TRUE(fault.has_failed());
  const auto third = std::make_unique<int>(3);
}

TEST(HostAllocationFaultTest, FailsAlignedAndNothrowForms) {
  struct alignas(128) Aligned {
    char bytes[128];
  };
  {
    const HostAllocationFault fault(1);
    EXPECT_THROW(static_cast<void>(std::make_unique<Aligned>()), std::bad_alloc);
  }
  const HostAllocationFault fault(1);
  const std::unique_ptr<int> none(new (std::nothrow) int);
  EXPECT_EQ(none, nullptr);
}

TEST(HostAllocationFaultTest, ErrorForLackOfHostMemoryNeedsNone) {
  const Status full = Status::out_of_memory("a message that is longer than a short string");
  const HostAllocationFault fault(1);
  const Status exhausted = Status::host_out_of_memory();
  const Status copies[] = {exhausted, full};
  EXPECT_FALSE(fault.has_failed());
  EXPECT_EQ(copies[0].kind(), StatusKind::kHostOutOfMemory);
  EXPECT_EQ(copies[1].kind(), StatusKind::kOutOfMemory);
}

TEST(HostAllocationFaultTest, SparesExemptAllocationsAndOtherThreads) {
  const HostAllocationFault fault(1);
  {
    const HostAllocationExemption exempt;
    std::thread other([] { const std::vector<int> elements(100); });
    other.join();
    const std::vector<int> elements(100);
  }
  EXPECT_FALSE(fault.has_failed());
}

}  // namespace
}  // namespace ashlar::sweep
