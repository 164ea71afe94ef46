// SPDX-License-Identifier: Apache-2.0
//
// Where addresses and physical memory meet: map, set_access, unmap.
#include <vector>

#include "device_contract.h"

namespace ashlar::contract {

// --- map ----------------------------------------------------------------------------------------

TEST_P(VirtualMemoryContract, AMappedExtentIsNotAccessibleUntilSetAccess) {
  const size_t granule = granule_bytes();
  const AddressRange range{reserved(granule), granule};
  const StreamId stream = new_stream();
  must(device().map(range.begin, created(granule)));
  keep_mapping(range);
  uint8_t* host = pinned_bytes(16);
  expect_usage(device().fill(range.begin, 1, 1, stream));
  expect_usage(device().copy_to_host(host, range.begin, 16, stream));
  must(device().set_access(range, properties().index, Access::kReadWrite));
  EXPECT_TRUE(holds_bytes(range.begin));
}

TEST_P(VirtualMemoryContract, NeighbouringExtentsMakeOneRange) {
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserved(4 * granule);
  const std::vector<size_t> sizes = {granule, 2 * granule, granule};
  DeviceAddress at = begin;
  for (const size_t bytes : sizes) {
    must(device().map(at, created(bytes)));
    keep_mapping({at, bytes});
    at = at + bytes;
  }
  must(device().set_access({begin, 4 * granule}, properties().index, Access::kReadWrite));
  const Bytes wanted = pattern(3 * granule, 5);
  write(begin + granule / 2, wanted);
  EXPECT_EQ(read_back(begin + granule / 2, wanted.size()), wanted);
}

TEST_P(VirtualMemoryContract, MapRefusesPlacesThatAreNotFreeAddressesOfOneReservation) {
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserved(4 * granule);
  map_accessible(begin + granule, created(granule), granule);
  const ExtentId one = created(granule);
  const ExtentId two = created(2 * granule);
  {
    const Untouched untouched(*this);
    expect_usage(device().map({}, one));
    expect_usage(device().map(begin + 2 * granule + 1, one));
    expect_usage(device().map(begin + 2 * granule + granule / 2, one));
    expect_usage(device().map(begin + granule, one));
    expect_usage(device().map(begin, two));
    expect_usage(device().map(begin + 3 * granule, two));
    expect_usage(device().map(begin + 4 * granule, one));
    expect_usage(device().map(DeviceAddress(0) + (SIZE_MAX - granule + 1), one));
    expect_usage(device().map(DeviceAddress(0) + (SIZE_MAX - granule + 1), two));
  }
  EXPECT_TRUE(holds_bytes(begin + granule));
  map_accessible(begin, one, granule);
  map_accessible(begin + 2 * granule, two, 2 * granule);
  EXPECT_TRUE(holds_bytes(begin + 3 * granule));
}

TEST_P(VirtualMemoryContract, MapRefusesMemoryFromAllocate) {
  const DeviceAddress plain = allocated(granule_bytes());
  const ExtentId extent = created(granule_bytes());
  {
    const Untouched untouched(*this);
    expect_usage(device().map(plain, extent));
  }
  EXPECT_TRUE(holds_bytes(plain));
}

TEST_P(VirtualMemoryContract, MapRefusesForeignExtents) {
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserved(granule);
  const ExtentId released = must(device().create(granule));
  must(device().release(released));
  {
    const Untouched untouched(*this);
    expect_usage(device().map(begin, never_given<ExtentId>()));
    expect_usage(device().map(begin, released));
  }
  map_accessible(begin, created(granule), granule);
}

TEST_P(VirtualMemoryContract, MapRefusesAnotherDevicesExtent) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const size_t granule = granule_bytes();
  const DeviceAddress mine = reserved(granule);
  const ExtentId theirs = created_on(other(), granule);
  {
    const Untouched untouched(*this);
    expect_usage(device().map(mine, theirs));
  }
  map_accessible(mine, created(granule), granule);
  EXPECT_TRUE(holds_bytes(mine));
}

TEST_P(VirtualMemoryContract, MapRefusesAnotherDevicesReservation) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const size_t granule = granule_bytes();
  const ExtentId mine = created(granule);
  const DeviceAddress theirs = reserved(granule, other());
  const Untouched untouched(*this);
  expect_usage(device().map(theirs, mine));
}

TEST_P(VirtualMemoryContract, AnAliasedExtentShowsTheSameBytesAtBothAddresses) {
  if (!properties().can_alias) GTEST_SKIP() << "the device cannot alias";
  const size_t granule = granule_bytes();
  const MappedRange first = mapped_range(granule);
  const DeviceAddress second = reserved(2 * granule);
  const size_t before = free_bytes();
  map_accessible(second + granule, first.extent, granule);
  EXPECT_TRUE(same_use(free_bytes(), before)) << "an alias takes no memory";
  write(first.range.begin, pattern(granule, 1));
  EXPECT_EQ(read_back(second + granule, granule), pattern(granule, 1));
  write(second + granule, pattern(granule, 2));
  EXPECT_EQ(read_back(first.range.begin, granule), pattern(granule, 2));
  unmap_now(first.range);
  EXPECT_EQ(read_back(second + granule, granule), pattern(granule, 2));
}

TEST_P(VirtualMemoryContract, AReleasedExtentLivesUntilItsLastAliasIsUnmapped) {
  if (!properties().can_alias) GTEST_SKIP() << "the device cannot alias";
  const size_t granule = granule_bytes();
  const size_t before = free_bytes();
  const MappedRange first = mapped_range(granule);
  const AddressRange second{reserved(granule), granule};
  map_accessible(second.begin, first.extent, granule);
  write(first.range.begin, pattern(512, 9));
  release_now(first.extent);
  unmap_now(first.range);
  EXPECT_TRUE(same_use(free_bytes(), before - granule));
  EXPECT_EQ(read_back(second.begin, 512), pattern(512, 9));
  unmap_now(second);
  EXPECT_TRUE(same_use(free_bytes(), before));
}

TEST_P(VirtualMemoryContract, WithoutAliasingAnExtentIsMappedOnce) {
  if (properties().can_alias) GTEST_SKIP() << "the device can alias";
  const MappedRange mapped = mapped_range(granule_bytes());
  const DeviceAddress elsewhere = reserved(granule_bytes());
  {
    const Untouched untouched(*this);
    expect_usage(device().map(elsewhere, mapped.extent));
  }
  EXPECT_TRUE(holds_bytes(mapped.range.begin));
}

TEST_P(VirtualMemoryContract, MoreThanMaxMappingsIsOutOfMemory) {
  const size_t most = properties().max_mappings;
  if (most == 0 || most > 8192) GTEST_SKIP() << "no limit on mappings that a test can reach";
  if (!properties().can_alias) GTEST_SKIP() << "the device cannot alias";
  const size_t granule = granule_bytes();
  const ExtentId extent = created(granule);
  const DeviceAddress begin = reserved((most + 1) * granule);
  size_t count = 0;
  Status last;
  for (; count <= most; ++count) {
    last = device().map(begin + count * granule, extent);
    if (!last.ok()) break;
    keep_mapping({begin + count * granule, granule});
  }
  expect_out_of_memory(last);
  ASSERT_GT(count, 0U);
  EXPECT_LE(count, most);
  unmap_now({begin, granule});
  map_accessible(begin, extent, granule);
  EXPECT_TRUE(holds_bytes(begin));
}

// --- set_access ---------------------------------------------------------------------------------

TEST_P(VirtualMemoryContract, AccessCanBeTakenAwayAndGivenBack) {
  const MappedRange mapped = mapped_range(granule_bytes());
  const StreamId stream = new_stream();
  write(mapped.range.begin, pattern(256, 8));
  must(device().set_access(mapped.range, properties().index, Access::kNone));
  expect_usage(device().fill(mapped.range.begin, 1, 1, stream));
  must(device().set_access(mapped.range, properties().index, Access::kReadWrite));
  EXPECT_EQ(read_back(mapped.range.begin, 256), pattern(256, 8));
}

TEST_P(VirtualMemoryContract, ReadAccessAllowsNoWrites) {
  const MappedRange mapped = mapped_range(granule_bytes());
  const StreamId stream = new_stream();
  write(mapped.range.begin, pattern(256, 8));
  const Status set = device().set_access(mapped.range, properties().index, Access::kRead);
  if (set.is(StatusKind::kUnsupported)) GTEST_SKIP() << "no read-only memory: " << set.message();
  must(set);
  uint8_t* host = pinned_bytes(256);
  expect_usage(device().fill(mapped.range.begin, 1, 1, stream));
  expect_usage(device().copy_to_device(mapped.range.begin, host, 256, stream));
  EXPECT_EQ(read_back(mapped.range.begin, 256), pattern(256, 8));
}

TEST_P(VirtualMemoryContract, AccessIsPerExtent) {
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserved(2 * granule);
  map_accessible(begin, created(granule), granule);
  map_accessible(begin + granule, created(granule), granule);
  must(device().set_access({begin, granule}, properties().index, Access::kNone));
  expect_usage(device().fill(begin + (granule - 1), 1, 2, new_stream()));
  EXPECT_TRUE(holds_bytes(begin + granule));
}

TEST_P(VirtualMemoryContract, AnotherDeviceReachesTheRangeOnceItHasAccess) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  if (!must(other().can_access_peer(properties().index))) GTEST_SKIP() << "no peer access";
  const MappedRange mapped = mapped_range(granule_bytes());
  const StreamId stream = new_stream(other());
  expect_refused(StatusKind::kInvalidArgument, other(),
                 other().fill(mapped.range.begin, 1, 1, stream));
  must(device().set_access(mapped.range, other().properties().index, Access::kReadWrite));
  write(mapped.range.begin, pattern(512, 40), other());
  EXPECT_EQ(read_back(mapped.range.begin, 512), pattern(512, 40));
  must(device().set_access(mapped.range, other().properties().index, Access::kNone));
  expect_refused(StatusKind::kInvalidArgument, other(),
                 other().fill(mapped.range.begin, 1, 1, stream));
}

// Ranges that neither set_access nor unmap takes, around [begin, begin + 2 granules), which holds
// an extent of two granules, and begin + 3 granules, which holds one of one; the rest is a hole.
std::vector<AddressRange> wrong_mapped_ranges(DeviceAddress begin, size_t granule) {
  return {
      {begin, 0},
      {begin, granule},                    // ends inside an extent
      {begin + granule, granule},          // begins inside an extent
      {begin, 2 * granule - 1},            // ends inside a granule
      {begin + 1, 2 * granule},            // begins inside a granule
      {begin, 3 * granule},                // ends in a hole
      {begin, 4 * granule},                // has a hole
      {begin + 2 * granule, granule},      // is a hole
      {begin + 2 * granule, 2 * granule},  // begins in a hole
      {begin + 3 * granule, 2 * granule},  // leaves the reservation
      {begin, SIZE_MAX - granule + 1},     // overflows
      {begin, SIZE_MAX},                   // overflows
      {DeviceAddress(), granule},          // is nowhere
      {DeviceAddress(0) + (SIZE_MAX - granule + 1), granule},
  };
}

TEST_P(VirtualMemoryContract, SetAccessRefusesRangesThatAreNotWholeExtents) {
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserved(4 * granule);
  map_accessible(begin, created(2 * granule), 2 * granule);
  map_accessible(begin + 3 * granule, created(granule), granule);
  {
    const Untouched untouched(*this);
    for (const AddressRange& wrong : wrong_mapped_ranges(begin, granule)) {
      SCOPED_TRACE(testing::Message() << wrong.begin - begin << " + " << wrong.bytes);
      expect_usage(device().set_access(wrong, properties().index, Access::kNone));
    }
  }
  EXPECT_TRUE(holds_bytes(begin)) << "access is as it was";
  EXPECT_TRUE(holds_bytes(begin + granule));
  EXPECT_TRUE(holds_bytes(begin + 3 * granule));
}

TEST_P(VirtualMemoryContract, SetAccessRefusesDevicesThatDoNotExist) {
  const MappedRange mapped = mapped_range(granule_bytes());
  {
    const Untouched untouched(*this);
    expect_usage(
        device().set_access(mapped.range, DeviceIndex(device_count()), Access::kReadWrite));
    expect_usage(device().set_access(mapped.range, never_given<DeviceIndex>(), Access::kNone));
  }
  EXPECT_TRUE(holds_bytes(mapped.range.begin));
}

// --- unmap --------------------------------------------------------------------------------------

TEST_P(VirtualMemoryContract, UnmapTakesTheMemoryAwayAndLeavesItsNeighbours) {
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserved(3 * granule);
  for (size_t i = 0; i < 3; ++i) map_accessible(begin + i * granule, created(granule), granule);
  unmap_now({begin + granule, granule});
  const StreamId stream = new_stream();
  expect_usage(device().fill(begin + granule, 1, 1, stream));
  expect_usage(device().fill(begin, 1, 3 * granule, stream));
  EXPECT_TRUE(holds_bytes(begin));
  EXPECT_TRUE(holds_bytes(begin + 2 * granule));
}

TEST_P(VirtualMemoryContract, BytesSurviveUnmappingAndMappingElsewhere) {
  const size_t granule = granule_bytes();
  const MappedRange mapped = mapped_range(granule);
  const DeviceAddress elsewhere = reserved(granule);
  write(mapped.range.begin, pattern(granule, 33));
  unmap_now(mapped.range);
  must(device().map(elsewhere, mapped.extent));
  keep_mapping({elsewhere, granule});
  expect_usage(device().fill(elsewhere, 1, 1, new_stream()));
  must(device().set_access({elsewhere, granule}, properties().index, Access::kReadWrite));
  EXPECT_EQ(read_back(elsewhere, granule), pattern(granule, 33));
}

TEST_P(VirtualMemoryContract, UnmapTakesSeveralExtentsAtOnceAndTheirAddressesAreFreeAgain) {
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserved(3 * granule);
  map_accessible(begin, created(granule), granule);
  map_accessible(begin + granule, created(2 * granule), 2 * granule);
  unmap_now({begin, 3 * granule});
  map_accessible(begin, created(3 * granule), 3 * granule);
  EXPECT_TRUE(holds_bytes(begin + 2 * granule));
}

TEST_P(VirtualMemoryContract, UnmapRefusesARangeThatCutsAnExtentOrHasAHole) {
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserved(4 * granule);
  map_accessible(begin, created(2 * granule), 2 * granule);
  map_accessible(begin + 3 * granule, created(granule), granule);
  {
    const Untouched untouched(*this);
    for (const AddressRange& wrong : wrong_mapped_ranges(begin, granule)) {
      SCOPED_TRACE(testing::Message() << wrong.begin - begin << " + " << wrong.bytes);
      expect_usage(device().unmap(wrong));
    }
  }
  EXPECT_TRUE(holds_bytes(begin));
  EXPECT_TRUE(holds_bytes(begin + granule));
  EXPECT_TRUE(holds_bytes(begin + 3 * granule));
}

TEST_P(VirtualMemoryContract, UnmapRefusesWhatIsUnmappedAlreadyAndWhatWasAllocated) {
  const size_t granule = granule_bytes();
  const MappedRange mapped = mapped_range(granule);
  const DeviceAddress plain = allocated(granule);
  unmap_now(mapped.range);
  {
    const Untouched untouched(*this);
    expect_usage(device().unmap(mapped.range));
    expect_usage(device().unmap({plain, granule}));
    expect_usage(device().set_access({plain, granule}, properties().index, Access::kNone));
  }
  EXPECT_TRUE(holds_bytes(plain));
}

TEST_P(VirtualMemoryContract, AnotherDevicesMappingsAreNotOursToChange) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const MappedRange theirs = mapped_range(granule_bytes(), other());
  {
    const Untouched untouched(*this);
    expect_usage(device().unmap(theirs.range));
    expect_usage(device().set_access(theirs.range, properties().index, Access::kReadWrite));
    expect_usage(device().set_access(theirs.range, other().properties().index, Access::kNone));
  }
  EXPECT_TRUE(holds_bytes(theirs.range.begin, other()));
}

TEST_P(VirtualMemoryContract, MappingCallsDoNotWaitForWorkOnOtherRanges) {
  const size_t granule = granule_bytes();
  const MappedRange busy = mapped_range(granule);
  const MappedRange quiet = mapped_range(granule);
  const StreamId stream = new_stream();
  Gate& gate = hold(stream);
  must(device().fill(busy.range.begin, 77, granule, stream));
  unmap_now(quiet.range);
  map_accessible(quiet.range.begin, quiet.extent, granule);
  release_now(quiet.extent);
  unmap_now(quiet.range);
  created(granule);
  reserved(granule);
  EXPECT_TRUE(gate.is_closed()) << "a call waited for work in a stream";
  gate.open();
  must(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(busy.range.begin, granule), Bytes(granule, 77));
}

}  // namespace ashlar::contract
