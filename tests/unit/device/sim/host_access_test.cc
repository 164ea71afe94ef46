// SPDX-License-Identifier: Apache-2.0
//
// Tests that host accesses to device memory fault, and that the fault is explained.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "machine_fixture.h"

namespace ashlar::sim {
namespace {

volatile char* as_host_pointer(DeviceAddress at) {
  return reinterpret_cast<volatile char*>(at.value());
}

TEST(HostAccessDeathTest, HostReadOfAnAllocationIsExplained) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  const DeviceAddress at = *machine->device(kFirst).allocate(kMiB);
  EXPECT_DEATH(
      {
        explain_host_access();
        (void)*as_host_pointer(at + 100);
      },
      "the host accessed device memory at 0x[0-9a-f]+: use a device copy");
}

TEST(HostAccessDeathTest, HostWriteFaultsWhileAKernelUsesTheRange) {
  EXPECT_DEATH(
      {
        explain_host_access();
        const std::unique_ptr<Machine> machine = make_machine(small_options());
        const MappedRange mapped = map_extents(machine->device(kFirst), 1);
        std::atomic<bool> inside{false};
        (void)machine->try_launch(kFirst, kDefaultStream, [&](const DeviceMemory& memory) {
          (*memory.try_view<char>(mapped.range.begin, 16))[0] = 1;
          inside = true;
          for (;;) std::this_thread::yield();
          return Status();
        });
        while (!inside) std::this_thread::yield();
        *as_host_pointer(mapped.range.begin) = 1;
      },
      "the host accessed device memory");
}

TEST(HostAccessDeathTest, UnmappedAddressesStayInaccessible) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  Device& device = machine->device(kFirst);
  const MappedRange mapped = map_extents(device, 1);
  ASSERT_TRUE(device.unmap(mapped.range).ok());
  EXPECT_DEATH(
      {
        explain_host_access();
        (void)*as_host_pointer(mapped.range.begin);
      },
      "the host accessed device memory");
}

TEST(HostAccessDeathTest, DoesNotExplainOtherFaults) {
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  using ::testing::Not;
  EXPECT_DEATH(
      {
        explain_host_access();
        std::fprintf(stderr, "before\n");
        volatile uint64_t nowhere = 64;
        (void)*as_host_pointer(DeviceAddress(nowhere));
      },
      AllOf(HasSubstr("before"), Not(HasSubstr("the host accessed device memory"))));
}

TEST(HostAccessTest, DeviceMemoryGivesAccessToDeviceData) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  Device& device = machine->device(kFirst);
  const DeviceAddress at = *device.allocate(kMiB);
  ASSERT_TRUE(device.fill(at, 0x5a, kMiB, kDefaultStream).ok());
  ASSERT_TRUE(device.synchronize_stream(kDefaultStream).ok());
  Result<std::span<const uint8_t>> seen = machine->memory(kFirst).try_view<const uint8_t>(at, kMiB);
  ASSERT_TRUE(seen.ok());
  EXPECT_EQ((*seen)[kMiB - 1], 0x5a);
}

TEST(HostAccessTest, DeviceMemoryRejectsInaccessibleRanges) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  Device& device = machine->device(kFirst);
  const DeviceAddress at = *device.allocate(64 * kKiB);
  const DeviceMemory memory = machine->memory(kFirst);
  EXPECT_EQ(memory.try_view<char>(at, 64 * kKiB + 1).status().kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(memory.try_view<uint64_t>(at, SIZE_MAX / 4).status().kind(),
            StatusKind::kInvalidArgument);
  EXPECT_EQ(memory.try_view<char>(DeviceAddress(64), 1).status().kind(),
            StatusKind::kInvalidArgument);
  EXPECT_EQ(machine->memory(kSecond).try_view<char>(at, 1).status().kind(),
            StatusKind::kInvalidArgument);

  const MappedRange mapped = map_extents(device, 1);
  ASSERT_TRUE(device.set_access(mapped.range, kFirst, Access::kRead).ok());
  EXPECT_TRUE(memory.try_view<const char>(mapped.range.begin, 1).ok());
  EXPECT_EQ(memory.try_view<char>(mapped.range.begin, 1).status().kind(),
            StatusKind::kInvalidArgument);
}

}  // namespace
}  // namespace ashlar::sim
