// SPDX-License-Identifier: Apache-2.0
//
// Tests reserve, free_addresses, create and release. mapping_contract.cc tests mappings.
#include <algorithm>
#include <set>
#include <vector>

#include "device_contract.h"

namespace ashlar::contract {

// --- reserve

TEST_P(VirtualMemoryContract, ReservationsAreAlignedAndUseNoMemory) {
  const size_t granule = granule_bytes();
  const MemoryUnchangedCheck unchanged(*this);
  std::vector<AddressRange> ranges;
  const size_t above_capacity = properties().capacity_bytes / granule * granule * 2;
  for (const size_t bytes : {granule, 3 * granule, 64 * granule, above_capacity}) {
    const AddressRange range{reserve(bytes), bytes};
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
        require_ok(device().reserve(granule, {.alignment_bytes = factor * granule}));
    track_addresses({begin, granule}, device());
    EXPECT_EQ(begin.value() % (factor * granule), 0U) << factor;
  }
}

TEST_P(VirtualMemoryContract, ReserveMayIgnoreTheHint) {
  const size_t granule = granule_bytes();
  const AddressRange taken{reserve(4 * granule), 4 * granule};
  for (const DeviceAddress hint : {taken.begin + granule, taken.begin + 1,
                                   DeviceAddress(UINT64_MAX), DeviceAddress(granule)}) {
    const AddressRange range{require_ok(device().reserve(2 * granule, {.hint = hint})),
                             2 * granule};
    track_addresses(range, device());
    EXPECT_EQ(range.begin.value() % granule, 0U) << hint.value();
    EXPECT_FALSE(taken.contains(range.begin)) << hint.value();
    EXPECT_FALSE(range.contains(taken.begin)) << hint.value();
  }
}

TEST_P(VirtualMemoryContract, ReservedAddressesAreNotAccessible) {
  const DeviceAddress begin = reserve(granule_bytes());
  expect_invalid_argument(device().fill(begin, 1, 1, create_stream()));
}

TEST_P(VirtualMemoryContract, ReserveRejectsInvalidSizesAndAlignments) {
  const size_t granule = granule_bytes();
  const MemoryUnchangedCheck unchanged(*this);
  expect_invalid_argument(device().reserve(0));
  expect_invalid_argument(device().reserve(1));
  expect_invalid_argument(device().reserve(granule + 1));
  expect_invalid_argument(device().reserve(granule / 2));
  expect_invalid_argument(device().reserve(SIZE_MAX));
  expect_invalid_argument(device().reserve(granule, {.alignment_bytes = 3 * granule}));
  expect_invalid_argument(device().reserve(granule, {.alignment_bytes = granule + 1}));
}

TEST_P(VirtualMemoryContract, ReserveBeyondTheAddressSpaceIsOutOfMemory) {
  const size_t granule = granule_bytes();
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_out_of_memory(device().reserve(SIZE_MAX - granule + 1));
    expect_out_of_memory(device().reserve(size_t{1} << 63));
  }
  map_accessible(reserve(granule), create(granule), granule);
}

// --- free_addresses

TEST_P(VirtualMemoryContract, FreedAddressesCannotBeMapped) {
  const size_t granule = granule_bytes();
  const ExtentId extent = create(granule);
  const AddressRange range{require_ok(device().reserve(granule)), granule};
  require_ok(device().free_addresses(range));
  const MemoryUnchangedCheck unchanged(*this);
  expect_invalid_argument(device().map(range.begin, extent));
  expect_invalid_argument(device().free_addresses(range));
}

TEST_P(VirtualMemoryContract, FreeAddressesRejectsPartialReservations) {
  const size_t granule = granule_bytes();
  const AddressRange range{reserve(4 * granule), 4 * granule};
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().free_addresses({range.begin, 0}));
    expect_invalid_argument(device().free_addresses({range.begin, granule}));
    expect_invalid_argument(device().free_addresses({range.begin, 5 * granule}));
    expect_invalid_argument(device().free_addresses({range.begin, 4 * granule - 1}));
    expect_invalid_argument(device().free_addresses({range.begin + granule, 3 * granule}));
    expect_invalid_argument(device().free_addresses({range.begin + 1, 4 * granule}));
    expect_invalid_argument(device().free_addresses({range.begin, SIZE_MAX}));
    expect_invalid_argument(device().free_addresses({{}, granule}));
    expect_invalid_argument(
        device().free_addresses({DeviceAddress(0) + (SIZE_MAX - granule + 1), granule}));
  }
  map_accessible(range.begin + 3 * granule, create(granule), granule);
  EXPECT_TRUE(is_usable(range.begin + 3 * granule));
}

TEST_P(VirtualMemoryContract, FreeAddressesRejectsMappedReservations) {
  const size_t granule = granule_bytes();
  const AddressRange range{reserve(4 * granule), 4 * granule};
  map_accessible(range.begin + 2 * granule, create(granule), granule);
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().free_addresses(range));
  }
  EXPECT_TRUE(is_usable(range.begin + 2 * granule));
  unmap_now({range.begin + 2 * granule, granule});
  free_addresses_now(range);
}

TEST_P(VirtualMemoryContract, FreeAddressesRejectsAllocatedMemory) {
  const size_t granule = granule_bytes();
  const DeviceAddress address = allocate(granule);
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().free_addresses({address, granule}));
  }
  EXPECT_TRUE(is_usable(address));
}

TEST_P(VirtualMemoryContract, FreeAddressesRejectsAnotherDevicesReservation) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const size_t bytes = other().properties().granularity_bytes;
  const DeviceAddress theirs = reserve(bytes, other());
  expect_invalid_argument(device().free_addresses({theirs, bytes}));
}

// --- create and release

TEST_P(VirtualMemoryContract, CreateAndReleaseChangeMemoryStats) {
  const size_t bytes = 8 * granule_bytes();
  const size_t before = free_bytes();
  const ExtentId extent = create(bytes);
  EXPECT_TRUE(equal_within_slack(free_bytes(), before - bytes));
  release_now(extent);
  EXPECT_TRUE(equal_within_slack(free_bytes(), before));
}

TEST_P(VirtualMemoryContract, ExtentIdsAreUnique) {
  std::set<ExtentId> ids;
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(ids.insert(create(granule_bytes())).second);
}

TEST_P(VirtualMemoryContract, CreateRejectsInvalidSizes) {
  const MemoryUnchangedCheck unchanged(*this);
  expect_invalid_argument(device().create(0));
  expect_invalid_argument(device().create(1));
  expect_invalid_argument(device().create(granule_bytes() + 1));
  expect_invalid_argument(device().create(granule_bytes() / 2));
  expect_invalid_argument(device().create(SIZE_MAX));
}

TEST_P(VirtualMemoryContract, CreateBeyondTheCapacityIsOutOfMemory) {
  const size_t granule = granule_bytes();
  const size_t too_many = properties().capacity_bytes / granule + 1;
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_out_of_memory(device().create(too_many * granule));
    expect_out_of_memory(device().create(size_t{1} << 62));
    expect_out_of_memory(device().create(SIZE_MAX - granule + 1));
  }
  map_accessible(reserve(granule), create(granule), granule);
}

TEST_P(VirtualMemoryContract, FullDeviceIsOutOfMemoryUntilARelease) {
  const size_t granule = granule_bytes();
  const size_t step = std::max<size_t>(properties().capacity_bytes / granule / 8, 1) * granule;
  const MappedRange mine = map_range(granule);
  std::vector<ExtentId> taken;
  Result<ExtentId> last = device().create(step);
  while (last.ok() && taken.size() <= 8) {
    taken.push_back(*last);
    track_extent(*last);
    last = device().create(step);
  }
  ASSERT_FALSE(taken.empty());
  expect_out_of_memory(last);
  EXPECT_TRUE(is_usable(mine.range.begin));
  release_now(taken.front());
  create(step);
}

TEST_P(VirtualMemoryContract, PlainMemoryAndExtentsShareOneCapacity) {
  const size_t granule = granule_bytes();
  const size_t most = free_bytes() / granule / 4 * 3 * granule;
  allocate(most);
  const MemoryUnchangedCheck unchanged(*this);
  expect_out_of_memory(device().create(most));
}

TEST_P(VirtualMemoryContract, ReleaseRejectsUnknownAndReleasedExtents) {
  const ExtentId mine = create(granule_bytes());
  const ExtentId released = require_ok(device().create(granule_bytes()));
  require_ok(device().release(released));
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().release(unknown_id<ExtentId>()));
    expect_invalid_argument(device().release(released));
  }
  map_accessible(reserve(granule_bytes()), mine, granule_bytes());
}

TEST_P(VirtualMemoryContract, ReleaseRejectsAnotherDevicesExtent) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const MappedRange theirs = map_range(other().properties().granularity_bytes, other());
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().release(theirs.extent));
  }
  EXPECT_TRUE(is_usable(theirs.range.begin, other()));
}

TEST_P(VirtualMemoryContract, ReleasedExtentKeepsItsMemoryUntilUnmapped) {
  const size_t granule = granule_bytes();
  const size_t before = free_bytes();
  const MappedRange mapped = map_range(granule);
  const Bytes wanted = pattern(4096, 21);
  write(mapped.range.begin, wanted);
  release_now(mapped.extent);
  EXPECT_TRUE(equal_within_slack(free_bytes(), before - granule));
  EXPECT_EQ(read_back(mapped.range.begin, wanted.size()), wanted);
  EXPECT_TRUE(is_usable(mapped.range.begin));
  unmap_now(mapped.range);
  EXPECT_TRUE(equal_within_slack(free_bytes(), before));
}

TEST_P(VirtualMemoryContract, MapRejectsAReleasedExtent) {
  const size_t granule = granule_bytes();
  const MappedRange mapped = map_range(granule);
  const DeviceAddress elsewhere = reserve(granule);
  release_now(mapped.extent);
  const MemoryUnchangedCheck unchanged(*this);
  expect_invalid_argument(device().map(elsewhere, mapped.extent));
  expect_invalid_argument(device().release(mapped.extent));
}

}  // namespace ashlar::contract
