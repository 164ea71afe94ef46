// SPDX-License-Identifier: Apache-2.0
//
// Plain memory: allocate, free, describe.
#include <vector>

#include "device_contract.h"

namespace ashlar::contract {

TEST_P(MemoryContract, AllocatedMemoryIsAlignedAndHoldsBytes) {
  for (const size_t bytes : {size_t{1}, size_t{513}, size_t{100'000}, granule_bytes() * 3}) {
    const DeviceAddress address = allocated(bytes);
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
    addresses.push_back(allocated(kBytes));
    write(addresses.back(), pattern(kBytes, i));
  }
  for (uint8_t i = 0; i < 16; ++i) EXPECT_EQ(read_back(addresses[i], kBytes), pattern(kBytes, i));
}

TEST_P(MemoryContract, AllocationsOfTwoDevicesHaveDifferentAddresses) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const size_t bytes = granule_bytes();
  const AddressRange mine{allocated(bytes), bytes};
  const AddressRange theirs{allocated(bytes, other()), bytes};
  EXPECT_FALSE(mine.contains(theirs.begin));
  EXPECT_FALSE(theirs.contains(mine.begin));
}

TEST_P(MemoryContract, AllocateTakesMemoryAndFreeGivesItBack) {
  const size_t bytes = 16 * granule_bytes();
  const size_t before = free_bytes();
  const DeviceAddress address = allocated(bytes);
  EXPECT_TRUE(same_use(free_bytes(), before - bytes));
  free_now(address);
  EXPECT_TRUE(same_use(free_bytes(), before));
}

TEST_P(MemoryContract, AllocateRefusesNoBytes) {
  const Untouched untouched(*this);
  expect_usage(device().allocate(0));
}

TEST_P(MemoryContract, AllocateOfMoreThanThereIsIsOutOfMemory) {
  const DeviceAddress mine = allocated(granule_bytes());
  {
    const Untouched untouched(*this);
    expect_out_of_memory(device().allocate(properties().capacity_bytes + 1));
    expect_out_of_memory(device().allocate(properties().capacity_bytes * 2));
    expect_out_of_memory(device().allocate(size_t{1} << 62));
    expect_out_of_memory(device().allocate(SIZE_MAX));
  }
  EXPECT_TRUE(holds_bytes(mine));
  EXPECT_TRUE(holds_bytes(allocated(granule_bytes()))) << "the device is as healthy as before";
}

TEST_P(MemoryContract, AFullDeviceIsOutOfMemoryUntilSomethingIsFreed) {
  const size_t step = properties().capacity_bytes / 8;
  std::vector<DeviceAddress> taken;
  Result<DeviceAddress> last = device().allocate(step);
  while (last.ok() && taken.size() <= 8) {
    taken.push_back(*last);
    keep_allocated(*last);
    last = device().allocate(step);
  }
  ASSERT_FALSE(taken.empty());
  expect_out_of_memory(last);
  EXPECT_LE(taken.size() * step, properties().capacity_bytes);
  EXPECT_TRUE(holds_bytes(taken.front()));
  free_now(taken.back());
  EXPECT_TRUE(holds_bytes(allocated(step)));
}

TEST_P(MemoryContract, FreeRefusesWhatAllocateDidNotGiveOut) {
  const DeviceAddress address = allocated(granule_bytes());
  void* host = pinned(4096);
  int local = 0;
  {
    const Untouched untouched(*this);
    expect_usage(device().free({}));
    expect_usage(device().free(address + 1));
    expect_usage(device().free(address + granule_bytes()));
    expect_usage(device().free(never_given<DeviceAddress>()));
    expect_usage(device().free(DeviceAddress(reinterpret_cast<uintptr_t>(host))));
    expect_usage(device().free(DeviceAddress(reinterpret_cast<uintptr_t>(&local))));
  }
  EXPECT_TRUE(holds_bytes(address));
}

TEST_P(MemoryContract, FreeRefusesMappedAndReservedAddresses) {
  if (!properties().has_virtual_memory) GTEST_SKIP() << "the device has no virtual memory";
  const MappedRange mapped = mapped_range(granule_bytes());
  const DeviceAddress addresses = reserved(granule_bytes());
  {
    const Untouched untouched(*this);
    expect_usage(device().free(mapped.range.begin));
    expect_usage(device().free(addresses));
  }
  EXPECT_TRUE(holds_bytes(mapped.range.begin));
}

TEST_P(MemoryContract, FreeRefusesWhatIsFreeAlready) {
  const DeviceAddress freed = must(device().allocate(granule_bytes()));
  must(device().free(freed));
  const Untouched untouched(*this);
  expect_usage(device().free(freed));
}

TEST_P(MemoryContract, FreeRefusesAnotherDevicesMemory) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const DeviceAddress theirs = allocated(granule_bytes(), other());
  {
    const Untouched untouched(*this);
    expect_usage(device().free(theirs));
  }
  EXPECT_TRUE(holds_bytes(theirs, other()));
}

// --- describe -----------------------------------------------------------------------------------

TEST_P(MemoryContract, DescribeNamesTheAllocationAroundAnAddress) {
  const size_t bytes = 2 * granule_bytes();
  const DeviceAddress address = allocated(bytes);
  for (const size_t offset : {size_t{0}, size_t{1}, bytes / 2, bytes - 1}) {
    const AddressDescription found = must(device().describe(address + offset));
    EXPECT_EQ(found.kind, MemoryKind::kDevice) << offset;
    EXPECT_EQ(found.device, properties().index) << offset;
    EXPECT_EQ(found.range, (AddressRange{address, bytes})) << offset;
  }
  const AddressDescription beyond = must(device().describe(address + bytes));
  EXPECT_TRUE(beyond.kind == MemoryKind::kUnknown || beyond.range.begin == address + bytes);
}

TEST_P(MemoryContract, DescribeKnowsNothingOfForeignAndFreedAddresses) {
  const DeviceAddress freed = must(device().allocate(granule_bytes()));
  must(device().free(freed));
  int local = 0;
  for (const uint64_t value :
       {uint64_t{0}, UINT64_MAX, freed.value(), uint64_t{reinterpret_cast<uintptr_t>(&local)}}) {
    const AddressDescription found = must(device().describe(DeviceAddress(value)));
    EXPECT_EQ(found.kind, MemoryKind::kUnknown) << value;
  }
  EXPECT_TRUE(ok(device().last_error())) << "every address is a fair question";
}

TEST_P(MemoryContract, DescribeNamesTheOwnerWhicheverDeviceIsAsked) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const DeviceAddress theirs = allocated(granule_bytes(), other());
  const AddressDescription found = must(device().describe(theirs + 1));
  EXPECT_EQ(found.kind, MemoryKind::kDevice);
  EXPECT_EQ(found.device, other().properties().index);
  EXPECT_EQ(found.range.begin, theirs);
}

TEST_P(MemoryContract, DescribeNamesTheMappedExtentAndNotTheBareReservation) {
  if (!properties().has_virtual_memory) GTEST_SKIP() << "the device has no virtual memory";
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserved(3 * granule);
  map_accessible(begin + granule, created(granule), granule);
  const AddressDescription found = must(device().describe(begin + granule + 5));
  EXPECT_EQ(found.kind, MemoryKind::kDevice);
  EXPECT_EQ(found.device, properties().index);
  EXPECT_EQ(found.range, (AddressRange{begin + granule, granule}));
  EXPECT_EQ(must(device().describe(begin)).kind, MemoryKind::kUnknown);
  EXPECT_EQ(must(device().describe(begin + 2 * granule)).kind, MemoryKind::kUnknown);
}

}  // namespace ashlar::contract
