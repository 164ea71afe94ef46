// SPDX-License-Identifier: Apache-2.0
//
// Addresses and physical memory, each by itself: reserve, free_addresses, create, release. What
// happens when they meet is in mapping_contract.cc.
#include <algorithm>
#include <set>
#include <vector>

#include "device_contract.h"

namespace ashlar::contract {

// --- reserve ------------------------------------------------------------------------------------

TEST_P(VirtualMemoryContract, ReservationsAreAlignedAndTakeNoMemory) {
  const size_t granule = granule_bytes();
  const Untouched untouched(*this);
  std::vector<AddressRange> ranges;
  const size_t more_than_there_is = properties().capacity_bytes / granule * granule * 2;
  for (const size_t bytes : {granule, 3 * granule, 64 * granule, more_than_there_is}) {
    const AddressRange range{reserved(bytes), bytes};
    EXPECT_FALSE(range.begin.is_null());
    EXPECT_EQ(range.begin.value() % granule, 0U);
    for (const AddressRange& earlier : ranges) {
      EXPECT_FALSE(earlier.contains(range.begin));
      EXPECT_FALSE(range.contains(earlier.begin));
    }
    ranges.push_back(range);
  }
}

TEST_P(VirtualMemoryContract, ReserveHonoursTheAlignment) {
  const size_t granule = granule_bytes();
  for (const size_t factor : {size_t{1}, size_t{2}, size_t{16}, size_t{512}}) {
    const DeviceAddress begin =
        must(device().reserve(granule, {.alignment_bytes = factor * granule}));
    keep_addresses({begin, granule}, device());
    EXPECT_EQ(begin.value() % (factor * granule), 0U) << factor;
  }
}

TEST_P(VirtualMemoryContract, AHintIsOnlyAWish) {
  const size_t granule = granule_bytes();
  const AddressRange taken{reserved(4 * granule), 4 * granule};
  for (const DeviceAddress hint : {taken.begin + granule, taken.begin + 1,
                                   DeviceAddress(UINT64_MAX), DeviceAddress(granule)}) {
    const AddressRange range{must(device().reserve(2 * granule, {.hint = hint})), 2 * granule};
    keep_addresses(range, device());
    EXPECT_EQ(range.begin.value() % granule, 0U) << hint.value();
    EXPECT_FALSE(taken.contains(range.begin)) << hint.value();
    EXPECT_FALSE(range.contains(taken.begin)) << hint.value();
  }
}

TEST_P(VirtualMemoryContract, ReservedAddressesHoldNothing) {
  const DeviceAddress begin = reserved(granule_bytes());
  expect_usage(device().fill(begin, 1, 1, new_stream()));
}

TEST_P(VirtualMemoryContract, ReserveRefusesWrongSizesAndAlignments) {
  const size_t granule = granule_bytes();
  const Untouched untouched(*this);
  expect_usage(device().reserve(0));
  expect_usage(device().reserve(1));
  expect_usage(device().reserve(granule + 1));
  expect_usage(device().reserve(granule / 2));
  expect_usage(device().reserve(SIZE_MAX));
  expect_usage(device().reserve(granule, {.alignment_bytes = 3 * granule}));
  expect_usage(device().reserve(granule, {.alignment_bytes = granule + 1}));
}

TEST_P(VirtualMemoryContract, ReserveOfMoreThanAllAddressesIsOutOfMemory) {
  const size_t granule = granule_bytes();
  {
    const Untouched untouched(*this);
    expect_out_of_memory(device().reserve(SIZE_MAX - granule + 1));
    expect_out_of_memory(device().reserve(size_t{1} << 63));
  }
  map_accessible(reserved(granule), created(granule), granule);
}

// --- free_addresses -----------------------------------------------------------------------------

TEST_P(VirtualMemoryContract, FreedAddressesAreNoReservationAnyMore) {
  const size_t granule = granule_bytes();
  const ExtentId extent = created(granule);
  const AddressRange range{must(device().reserve(granule)), granule};
  must(device().free_addresses(range));
  const Untouched untouched(*this);
  expect_usage(device().map(range.begin, extent));
  expect_usage(device().free_addresses(range));
}

TEST_P(VirtualMemoryContract, FreeAddressesRefusesWhatIsNotExactlyOneReservation) {
  const size_t granule = granule_bytes();
  const AddressRange range{reserved(4 * granule), 4 * granule};
  {
    const Untouched untouched(*this);
    expect_usage(device().free_addresses({range.begin, 0}));
    expect_usage(device().free_addresses({range.begin, granule}));
    expect_usage(device().free_addresses({range.begin, 5 * granule}));
    expect_usage(device().free_addresses({range.begin, 4 * granule - 1}));
    expect_usage(device().free_addresses({range.begin + granule, 3 * granule}));
    expect_usage(device().free_addresses({range.begin + 1, 4 * granule}));
    expect_usage(device().free_addresses({range.begin, SIZE_MAX}));
    expect_usage(device().free_addresses({{}, granule}));
    expect_usage(device().free_addresses({DeviceAddress(0) + (SIZE_MAX - granule + 1), granule}));
  }
  map_accessible(range.begin + 3 * granule, created(granule), granule);
  EXPECT_TRUE(holds_bytes(range.begin + 3 * granule));
}

TEST_P(VirtualMemoryContract, FreeAddressesRefusesAReservationWithSomethingMapped) {
  const size_t granule = granule_bytes();
  const AddressRange range{reserved(4 * granule), 4 * granule};
  map_accessible(range.begin + 2 * granule, created(granule), granule);
  {
    const Untouched untouched(*this);
    expect_usage(device().free_addresses(range));
  }
  EXPECT_TRUE(holds_bytes(range.begin + 2 * granule));
  unmap_now({range.begin + 2 * granule, granule});
  free_addresses_now(range);
}

TEST_P(VirtualMemoryContract, FreeAddressesRefusesMemoryFromAllocate) {
  const size_t granule = granule_bytes();
  const DeviceAddress address = allocated(granule);
  {
    const Untouched untouched(*this);
    expect_usage(device().free_addresses({address, granule}));
  }
  EXPECT_TRUE(holds_bytes(address));
}

TEST_P(VirtualMemoryContract, FreeAddressesRefusesAnotherDevicesReservation) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const size_t bytes = other().properties().granularity_bytes;
  const DeviceAddress theirs = reserved(bytes, other());
  expect_usage(device().free_addresses({theirs, bytes}));
}

// --- create and release -------------------------------------------------------------------------

TEST_P(VirtualMemoryContract, CreateTakesMemoryAndReleaseGivesItBack) {
  const size_t bytes = 8 * granule_bytes();
  const size_t before = free_bytes();
  const ExtentId extent = created(bytes);
  EXPECT_TRUE(same_use(free_bytes(), before - bytes));
  release_now(extent);
  EXPECT_TRUE(same_use(free_bytes(), before));
}

TEST_P(VirtualMemoryContract, ExtentsHaveDifferentIds) {
  std::set<ExtentId> ids;
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(ids.insert(created(granule_bytes())).second);
}

TEST_P(VirtualMemoryContract, CreateRefusesWrongSizes) {
  const Untouched untouched(*this);
  expect_usage(device().create(0));
  expect_usage(device().create(1));
  expect_usage(device().create(granule_bytes() + 1));
  expect_usage(device().create(granule_bytes() / 2));
  expect_usage(device().create(SIZE_MAX));
}

TEST_P(VirtualMemoryContract, CreateOfMoreThanThereIsIsOutOfMemory) {
  const size_t granule = granule_bytes();
  const size_t too_many = properties().capacity_bytes / granule + 1;
  {
    const Untouched untouched(*this);
    expect_out_of_memory(device().create(too_many * granule));
    expect_out_of_memory(device().create(size_t{1} << 62));
    expect_out_of_memory(device().create(SIZE_MAX - granule + 1));
  }
  map_accessible(reserved(granule), created(granule), granule);
}

TEST_P(VirtualMemoryContract, AFullDeviceIsOutOfMemoryUntilAnExtentIsReleased) {
  const size_t granule = granule_bytes();
  const size_t step = std::max<size_t>(properties().capacity_bytes / granule / 8, 1) * granule;
  const MappedRange mine = mapped_range(granule);
  std::vector<ExtentId> taken;
  Result<ExtentId> last = device().create(step);
  while (last.ok() && taken.size() <= 8) {
    taken.push_back(*last);
    keep_extent(*last);
    last = device().create(step);
  }
  ASSERT_FALSE(taken.empty());
  expect_out_of_memory(last);
  EXPECT_TRUE(holds_bytes(mine.range.begin));
  release_now(taken.front());
  created(step);
}

TEST_P(VirtualMemoryContract, PlainMemoryAndExtentsShareOneCapacity) {
  const size_t granule = granule_bytes();
  const size_t most = free_bytes() / granule / 4 * 3 * granule;
  allocated(most);
  const Untouched untouched(*this);
  expect_out_of_memory(device().create(most));
}

TEST_P(VirtualMemoryContract, ReleaseRefusesForeignAndReleasedExtents) {
  const ExtentId mine = created(granule_bytes());
  const ExtentId released = must(device().create(granule_bytes()));
  must(device().release(released));
  {
    const Untouched untouched(*this);
    expect_usage(device().release(never_given<ExtentId>()));
    expect_usage(device().release(released));
  }
  map_accessible(reserved(granule_bytes()), mine, granule_bytes());
}

TEST_P(VirtualMemoryContract, ReleaseRefusesAnotherDevicesExtent) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const MappedRange theirs = mapped_range(other().properties().granularity_bytes, other());
  {
    const Untouched untouched(*this);
    expect_usage(device().release(theirs.extent));
  }
  EXPECT_TRUE(holds_bytes(theirs.range.begin, other()));
}

TEST_P(VirtualMemoryContract, AReleasedExtentKeepsItsMemoryUntilItIsUnmapped) {
  const size_t granule = granule_bytes();
  const size_t before = free_bytes();
  const MappedRange mapped = mapped_range(granule);
  const Bytes wanted = pattern(4096, 21);
  write(mapped.range.begin, wanted);
  release_now(mapped.extent);
  EXPECT_TRUE(same_use(free_bytes(), before - granule));
  EXPECT_EQ(read_back(mapped.range.begin, wanted.size()), wanted);
  EXPECT_TRUE(holds_bytes(mapped.range.begin));
  unmap_now(mapped.range);
  EXPECT_TRUE(same_use(free_bytes(), before));
}

TEST_P(VirtualMemoryContract, AReleasedExtentCannotBeMappedAgain) {
  const size_t granule = granule_bytes();
  const MappedRange mapped = mapped_range(granule);
  const DeviceAddress elsewhere = reserved(granule);
  release_now(mapped.extent);
  const Untouched untouched(*this);
  expect_usage(device().map(elsewhere, mapped.extent));
  expect_usage(device().release(mapped.extent));
}

}  // namespace ashlar::contract
