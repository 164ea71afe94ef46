// SPDX-License-Identifier: Apache-2.0
//
// Tests plain memory: allocate, free, describe.
#include <vector>

#include "device_contract.h"

namespace ashlar::contract {

TEST_P(MemoryContract, AllocatedMemoryIsAlignedAndUsable) {
  for (const size_t bytes : {size_t{1}, size_t{513}, size_t{100'000}, granule_bytes() * 3}) {
    const DeviceAddress address = allocate(bytes);
    ASSERT_FALSE(address.is_null());
    EXPECT_EQ(address.value() % properties().allocation_alignment_bytes, 0U) << bytes;
    const Bytes wanted = pattern(bytes, 11);
    write(address, wanted);
    EXPECT_EQ(read_back(address, bytes), wanted) << bytes;
  }
}

TEST_P(MemoryContract, AllocationsDoNotOverlap) {
  constexpr size_t kBytes = 3000;
  std::vector<DeviceAddress> addresses;
  for (uint8_t i = 0; i < 16; ++i) {
    addresses.push_back(allocate(kBytes));
    write(addresses.back(), pattern(kBytes, i));
  }
  for (uint8_t i = 0; i < 16; ++i) EXPECT_EQ(read_back(addresses[i], kBytes), pattern(kBytes, i));
}

TEST_P(MemoryContract, AllocationsOfTwoDevicesHaveDifferentAddresses) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const size_t bytes = granule_bytes();
  const AddressRange mine{allocate(bytes), bytes};
  const AddressRange theirs{allocate(bytes, other()), bytes};
  EXPECT_FALSE(mine.contains(theirs.begin));
  EXPECT_FALSE(theirs.contains(mine.begin));
}

TEST_P(MemoryContract, AllocateAndFreeChangeMemoryStats) {
  const size_t bytes = 16 * granule_bytes();
  const size_t before = free_bytes();
  const DeviceAddress address = allocate(bytes);
  EXPECT_TRUE(equal_within_slack(free_bytes(), before - bytes));
  free_now(address);
  EXPECT_TRUE(equal_within_slack(free_bytes(), before));
}

TEST_P(MemoryContract, AllocateRejectsZeroBytes) {
  const MemoryUnchangedCheck unchanged(*this);
  expect_invalid_argument(device().allocate(0));
}

TEST_P(MemoryContract, AllocateBeyondTheCapacityIsOutOfMemory) {
  const DeviceAddress mine = allocate(granule_bytes());
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_out_of_memory(device().allocate(properties().capacity_bytes + 1));
    expect_out_of_memory(device().allocate(properties().capacity_bytes * 2));
    expect_out_of_memory(device().allocate(size_t{1} << 62));
    expect_out_of_memory(device().allocate(SIZE_MAX));
  }
  EXPECT_TRUE(is_usable(mine));
  EXPECT_TRUE(is_usable(allocate(granule_bytes()))) << "the device must still work";
}

TEST_P(MemoryContract, FullDeviceIsOutOfMemoryUntilAFree) {
  const size_t step = properties().capacity_bytes / 8;
  std::vector<DeviceAddress> taken;
  Result<DeviceAddress> last = device().allocate(step);
  while (last.ok() && taken.size() <= 8) {
    taken.push_back(*last);
    track_allocation(*last);
    last = device().allocate(step);
  }
  ASSERT_FALSE(taken.empty());
  expect_out_of_memory(last);
  EXPECT_LE(taken.size() * step, properties().capacity_bytes);
  EXPECT_TRUE(is_usable(taken.front()));
  free_now(taken.back());
  EXPECT_TRUE(is_usable(allocate(step)));
}

TEST_P(MemoryContract, FreeRejectsOtherAddresses) {
  const DeviceAddress address = allocate(granule_bytes());
  void* host = allocate_pinned(4096);
  int local = 0;
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().free({}));
    expect_invalid_argument(device().free(address + 1));
    expect_invalid_argument(device().free(address + granule_bytes()));
    expect_invalid_argument(device().free(unknown_id<DeviceAddress>()));
    expect_invalid_argument(device().free(DeviceAddress(reinterpret_cast<uintptr_t>(host))));
    expect_invalid_argument(device().free(DeviceAddress(reinterpret_cast<uintptr_t>(&local))));
  }
  EXPECT_TRUE(is_usable(address));
}

TEST_P(MemoryContract, FreeRejectsMappedAndReservedAddresses) {
  if (!properties().has_virtual_memory) GTEST_SKIP() << "the device has no virtual memory";
  const MappedRange mapped = map_range(granule_bytes());
  const DeviceAddress addresses = reserve(granule_bytes());
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().free(mapped.range.begin));
    expect_invalid_argument(device().free(addresses));
  }
  EXPECT_TRUE(is_usable(mapped.range.begin));
}

TEST_P(MemoryContract, FreeRejectsADoubleFree) {
  const DeviceAddress freed = require_ok(device().allocate(granule_bytes()));
  require_ok(device().free(freed));
  const MemoryUnchangedCheck unchanged(*this);
  expect_invalid_argument(device().free(freed));
}

TEST_P(MemoryContract, FreeRejectsAnotherDevicesMemory) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const DeviceAddress theirs = allocate(granule_bytes(), other());
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().free(theirs));
  }
  EXPECT_TRUE(is_usable(theirs, other()));
}

// --- describe

TEST_P(MemoryContract, DescribeReportsTheAllocationAroundAnAddress) {
  const size_t bytes = 2 * granule_bytes();
  const DeviceAddress address = allocate(bytes);
  for (const size_t offset : {size_t{0}, size_t{1}, bytes / 2, bytes - 1}) {
    const AddressDescription found = require_ok(device().describe(address + offset));
    EXPECT_EQ(found.kind, MemoryKind::kDevice) << offset;
    EXPECT_EQ(found.device, properties().index) << offset;
    EXPECT_EQ(found.range, (AddressRange{address, bytes})) << offset;
  }
  const AddressDescription beyond = require_ok(device().describe(address + bytes));
  EXPECT_TRUE(beyond.kind == MemoryKind::kUnknown || beyond.range.begin == address + bytes);
}

TEST_P(MemoryContract, DescribeReportsUnknownForOtherAddresses) {
  const DeviceAddress freed = require_ok(device().allocate(granule_bytes()));
  require_ok(device().free(freed));
  int local = 0;
  for (const uint64_t value :
       {uint64_t{0}, UINT64_MAX, freed.value(), uint64_t{reinterpret_cast<uintptr_t>(&local)}}) {
    const AddressDescription found = require_ok(device().describe(DeviceAddress(value)));
    EXPECT_EQ(found.kind, MemoryKind::kUnknown) << value;
  }
  EXPECT_TRUE(ok(device().last_error())) << "describe must accept every address";
}

TEST_P(MemoryContract, DescribeReportsTheOwningDevice) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const DeviceAddress theirs = allocate(granule_bytes(), other());
  const AddressDescription found = require_ok(device().describe(theirs + 1));
  EXPECT_EQ(found.kind, MemoryKind::kDevice);
  EXPECT_EQ(found.device, other().properties().index);
  EXPECT_EQ(found.range.begin, theirs);
}

TEST_P(MemoryContract, DescribeReportsMappedExtentsOnly) {
  if (!properties().has_virtual_memory) GTEST_SKIP() << "the device has no virtual memory";
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserve(3 * granule);
  map_accessible(begin + granule, create(granule), granule);
  const AddressDescription found = require_ok(device().describe(begin + granule + 5));
  EXPECT_EQ(found.kind, MemoryKind::kDevice);
  EXPECT_EQ(found.device, properties().index);
  EXPECT_EQ(found.range, (AddressRange{begin + granule, granule}));
  EXPECT_EQ(require_ok(device().describe(begin)).kind, MemoryKind::kUnknown);
  EXPECT_EQ(require_ok(device().describe(begin + 2 * granule)).kind, MemoryKind::kUnknown);
}

}  // namespace ashlar::contract
