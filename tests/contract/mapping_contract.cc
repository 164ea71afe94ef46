// SPDX-License-Identifier: Apache-2.0
//
// Tests map, set_access and unmap: access, arguments and failures.
#include <vector>

#include "device_contract.h"

namespace ashlar::contract {

// --- map

TEST_P(VirtualMemoryContract, MappedExtentIsInaccessibleUntilSetAccess) {
  const size_t granule = granule_bytes();
  const AddressRange range{reserve(granule), granule};
  const StreamId stream = create_stream();
  require_ok(device().map(range.begin, create(granule)));
  track_mapping(range);
  uint8_t* host = allocate_pinned_bytes(16);
  expect_invalid_argument(device().fill(range.begin, 1, 1, stream));
  expect_invalid_argument(device().copy_to_host(host, range.begin, 16, stream));
  require_ok(device().set_access(range, properties().index, Access::kReadWrite));
  EXPECT_TRUE(is_usable(range.begin));
}

TEST_P(VirtualMemoryContract, AdjacentExtentsFormOneRange) {
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserve(4 * granule);
  const std::vector<size_t> sizes = {granule, 2 * granule, granule};
  DeviceAddress at = begin;
  for (const size_t bytes : sizes) {
    require_ok(device().map(at, create(bytes)));
    track_mapping({at, bytes});
    at = at + bytes;
  }
  require_ok(device().set_access({begin, 4 * granule}, properties().index, Access::kReadWrite));
  const Bytes wanted = pattern(3 * granule, 5);
  write(begin + granule / 2, wanted);
  EXPECT_EQ(read_back(begin + granule / 2, wanted.size()), wanted);
}

TEST_P(VirtualMemoryContract, MapRejectsAddressesOutsideOneFreeReservation) {
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserve(4 * granule);
  map_accessible(begin + granule, create(granule), granule);
  const ExtentId one = create(granule);
  const ExtentId two = create(2 * granule);
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().map({}, one));
    expect_invalid_argument(device().map(begin + 2 * granule + 1, one));
    expect_invalid_argument(device().map(begin + 2 * granule + granule / 2, one));
    expect_invalid_argument(device().map(begin + granule, one));
    expect_invalid_argument(device().map(begin, two));
    expect_invalid_argument(device().map(begin + 3 * granule, two));
    expect_invalid_argument(device().map(begin + 4 * granule, one));
    expect_invalid_argument(device().map(DeviceAddress(0) + (SIZE_MAX - granule + 1), one));
    expect_invalid_argument(device().map(DeviceAddress(0) + (SIZE_MAX - granule + 1), two));
  }
  EXPECT_TRUE(is_usable(begin + granule));
  map_accessible(begin, one, granule);
  map_accessible(begin + 2 * granule, two, 2 * granule);
  EXPECT_TRUE(is_usable(begin + 3 * granule));
}

TEST_P(VirtualMemoryContract, MapRejectsAllocatedMemory) {
  const DeviceAddress plain = allocate(granule_bytes());
  const ExtentId extent = create(granule_bytes());
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().map(plain, extent));
  }
  EXPECT_TRUE(is_usable(plain));
}

TEST_P(VirtualMemoryContract, MapRejectsUnknownExtents) {
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserve(granule);
  const ExtentId released = require_ok(device().create(granule));
  require_ok(device().release(released));
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().map(begin, unknown_id<ExtentId>()));
    expect_invalid_argument(device().map(begin, released));
  }
  map_accessible(begin, create(granule), granule);
}

TEST_P(VirtualMemoryContract, MapRejectsAnotherDevicesExtent) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const size_t granule = granule_bytes();
  const DeviceAddress mine = reserve(granule);
  const ExtentId theirs = create_on(other(), granule);
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().map(mine, theirs));
  }
  map_accessible(mine, create(granule), granule);
  EXPECT_TRUE(is_usable(mine));
}

TEST_P(VirtualMemoryContract, MapRejectsAnotherDevicesReservation) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const size_t granule = granule_bytes();
  const ExtentId mine = create(granule);
  const DeviceAddress theirs = reserve(granule, other());
  const MemoryUnchangedCheck unchanged(*this);
  expect_invalid_argument(device().map(theirs, mine));
}

TEST_P(VirtualMemoryContract, AliasedExtentHasTheSameBytesAtBothAddresses) {
  if (!properties().can_alias) GTEST_SKIP() << "the device cannot alias";
  const size_t granule = granule_bytes();
  const MappedRange first = map_range(granule);
  const DeviceAddress second = reserve(2 * granule);
  const size_t before = free_bytes();
  map_accessible(second + granule, first.extent, granule);
  EXPECT_TRUE(equal_within_slack(free_bytes(), before)) << "an alias uses no memory";
  write(first.range.begin, pattern(granule, 1));
  EXPECT_EQ(read_back(second + granule, granule), pattern(granule, 1));
  write(second + granule, pattern(granule, 2));
  EXPECT_EQ(read_back(first.range.begin, granule), pattern(granule, 2));
  unmap_now(first.range);
  EXPECT_EQ(read_back(second + granule, granule), pattern(granule, 2));
}

TEST_P(VirtualMemoryContract, ReleasedExtentLivesUntilItsLastAliasIsUnmapped) {
  if (!properties().can_alias) GTEST_SKIP() << "the device cannot alias";
  const size_t granule = granule_bytes();
  const size_t before = free_bytes();
  const MappedRange first = map_range(granule);
  const AddressRange second{reserve(granule), granule};
  map_accessible(second.begin, first.extent, granule);
  write(first.range.begin, pattern(512, 9));
  release_now(first.extent);
  unmap_now(first.range);
  EXPECT_TRUE(equal_within_slack(free_bytes(), before - granule));
  EXPECT_EQ(read_back(second.begin, 512), pattern(512, 9));
  unmap_now(second);
  EXPECT_TRUE(equal_within_slack(free_bytes(), before));
}

TEST_P(VirtualMemoryContract, MapRejectsASecondMappingWithoutAliasing) {
  if (properties().can_alias) GTEST_SKIP() << "the device can alias";
  const MappedRange mapped = map_range(granule_bytes());
  const DeviceAddress elsewhere = reserve(granule_bytes());
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().map(elsewhere, mapped.extent));
  }
  EXPECT_TRUE(is_usable(mapped.range.begin));
}

TEST_P(VirtualMemoryContract, MapBeyondMaxMappingsIsOutOfMemory) {
  const size_t most = properties().max_mappings;
  if (most == 0 || most > 8192) GTEST_SKIP() << "no limit on mappings that a test can reach";
  if (!properties().can_alias) GTEST_SKIP() << "the device cannot alias";
  const size_t granule = granule_bytes();
  const ExtentId extent = create(granule);
  const DeviceAddress begin = reserve((most + 1) * granule);
  size_t count = 0;
  Status last;
  for (; count <= most; ++count) {
    last = device().map(begin + count * granule, extent);
    if (!last.ok()) break;
    track_mapping({begin + count * granule, granule});
  }
  expect_out_of_memory(last);
  ASSERT_GT(count, 0U);
  EXPECT_LE(count, most);
  unmap_now({begin, granule});
  map_accessible(begin, extent, granule);
  EXPECT_TRUE(is_usable(begin));
}

// --- set_access

TEST_P(VirtualMemoryContract, AccessCanBeRevokedAndRestored) {
  const MappedRange mapped = map_range(granule_bytes());
  const StreamId stream = create_stream();
  write(mapped.range.begin, pattern(256, 8));
  require_ok(device().set_access(mapped.range, properties().index, Access::kNone));
  expect_invalid_argument(device().fill(mapped.range.begin, 1, 1, stream));
  require_ok(device().set_access(mapped.range, properties().index, Access::kReadWrite));
  EXPECT_EQ(read_back(mapped.range.begin, 256), pattern(256, 8));
}

TEST_P(VirtualMemoryContract, ReadAccessForbidsWrites) {
  const MappedRange mapped = map_range(granule_bytes());
  const StreamId stream = create_stream();
  write(mapped.range.begin, pattern(256, 8));
  const Status set = device().set_access(mapped.range, properties().index, Access::kRead);
  if (set.is(StatusKind::kUnsupported)) GTEST_SKIP() << "no read-only memory: " << set.message();
  require_ok(set);
  uint8_t* host = allocate_pinned_bytes(256);
  expect_invalid_argument(device().fill(mapped.range.begin, 1, 1, stream));
  expect_invalid_argument(device().copy_to_device(mapped.range.begin, host, 256, stream));
  EXPECT_EQ(read_back(mapped.range.begin, 256), pattern(256, 8));
}

TEST_P(VirtualMemoryContract, AccessIsPerExtent) {
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserve(2 * granule);
  map_accessible(begin, create(granule), granule);
  map_accessible(begin + granule, create(granule), granule);
  require_ok(device().set_access({begin, granule}, properties().index, Access::kNone));
  expect_invalid_argument(device().fill(begin + (granule - 1), 1, 2, create_stream()));
  EXPECT_TRUE(is_usable(begin + granule));
}

TEST_P(VirtualMemoryContract, SetAccessCanGrantAccessToAnotherDevice) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  if (!require_ok(other().can_access_peer(properties().index))) GTEST_SKIP() << "no peer access";
  const MappedRange mapped = map_range(granule_bytes());
  const StreamId stream = create_stream(other());
  expect_error(StatusKind::kInvalidArgument, other(),
               other().fill(mapped.range.begin, 1, 1, stream));
  require_ok(device().set_access(mapped.range, other().properties().index, Access::kReadWrite));
  write(mapped.range.begin, pattern(512, 40), other());
  EXPECT_EQ(read_back(mapped.range.begin, 512), pattern(512, 40));
  require_ok(device().set_access(mapped.range, other().properties().index, Access::kNone));
  expect_error(StatusKind::kInvalidArgument, other(),
               other().fill(mapped.range.begin, 1, 1, stream));
}

// Returns ranges that set_access and unmap must reject. An extent of two granules is mapped at
// `begin` and an extent of one granule at begin + 3 granules; the granule between them is a hole.
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
      {DeviceAddress(), granule},          // has a null address
      {DeviceAddress(0) + (SIZE_MAX - granule + 1), granule},
  };
}

TEST_P(VirtualMemoryContract, SetAccessRejectsRangesThatAreNotWholeExtents) {
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserve(4 * granule);
  map_accessible(begin, create(2 * granule), 2 * granule);
  map_accessible(begin + 3 * granule, create(granule), granule);
  {
    const MemoryUnchangedCheck unchanged(*this);
    for (const AddressRange& wrong : wrong_mapped_ranges(begin, granule)) {
      SCOPED_TRACE(testing::Message() << wrong.begin - begin << " + " << wrong.bytes);
      expect_invalid_argument(device().set_access(wrong, properties().index, Access::kNone));
    }
  }
  EXPECT_TRUE(is_usable(begin)) << "access must not change";
  EXPECT_TRUE(is_usable(begin + granule));
  EXPECT_TRUE(is_usable(begin + 3 * granule));
}

TEST_P(VirtualMemoryContract, SetAccessRejectsUnknownDevices) {
  const MappedRange mapped = map_range(granule_bytes());
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(
        device().set_access(mapped.range, DeviceIndex(device_count()), Access::kReadWrite));
    expect_invalid_argument(
        device().set_access(mapped.range, unknown_id<DeviceIndex>(), Access::kNone));
  }
  EXPECT_TRUE(is_usable(mapped.range.begin));
}

// --- unmap

TEST_P(VirtualMemoryContract, UnmapLeavesAdjacentMappingsAlone) {
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserve(3 * granule);
  for (size_t i = 0; i < 3; ++i) map_accessible(begin + i * granule, create(granule), granule);
  unmap_now({begin + granule, granule});
  const StreamId stream = create_stream();
  expect_invalid_argument(device().fill(begin + granule, 1, 1, stream));
  expect_invalid_argument(device().fill(begin, 1, 3 * granule, stream));
  EXPECT_TRUE(is_usable(begin));
  EXPECT_TRUE(is_usable(begin + 2 * granule));
}

TEST_P(VirtualMemoryContract, ContentsSurviveRemappingElsewhere) {
  const size_t granule = granule_bytes();
  const MappedRange mapped = map_range(granule);
  const DeviceAddress elsewhere = reserve(granule);
  write(mapped.range.begin, pattern(granule, 33));
  unmap_now(mapped.range);
  require_ok(device().map(elsewhere, mapped.extent));
  track_mapping({elsewhere, granule});
  expect_invalid_argument(device().fill(elsewhere, 1, 1, create_stream()));
  require_ok(device().set_access({elsewhere, granule}, properties().index, Access::kReadWrite));
  EXPECT_EQ(read_back(elsewhere, granule), pattern(granule, 33));
}

TEST_P(VirtualMemoryContract, UnmapsSeveralExtentsInOneCall) {
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserve(3 * granule);
  map_accessible(begin, create(granule), granule);
  map_accessible(begin + granule, create(2 * granule), 2 * granule);
  unmap_now({begin, 3 * granule});
  map_accessible(begin, create(3 * granule), 3 * granule);
  EXPECT_TRUE(is_usable(begin + 2 * granule));
}

TEST_P(VirtualMemoryContract, UnmapRejectsPartialExtentsAndHoles) {
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserve(4 * granule);
  map_accessible(begin, create(2 * granule), 2 * granule);
  map_accessible(begin + 3 * granule, create(granule), granule);
  {
    const MemoryUnchangedCheck unchanged(*this);
    for (const AddressRange& wrong : wrong_mapped_ranges(begin, granule)) {
      SCOPED_TRACE(testing::Message() << wrong.begin - begin << " + " << wrong.bytes);
      expect_invalid_argument(device().unmap(wrong));
    }
  }
  EXPECT_TRUE(is_usable(begin));
  EXPECT_TRUE(is_usable(begin + granule));
  EXPECT_TRUE(is_usable(begin + 3 * granule));
}

TEST_P(VirtualMemoryContract, UnmapRejectsUnmappedAndAllocatedRanges) {
  const size_t granule = granule_bytes();
  const MappedRange mapped = map_range(granule);
  const DeviceAddress plain = allocate(granule);
  unmap_now(mapped.range);
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().unmap(mapped.range));
    expect_invalid_argument(device().unmap({plain, granule}));
    expect_invalid_argument(
        device().set_access({plain, granule}, properties().index, Access::kNone));
  }
  EXPECT_TRUE(is_usable(plain));
}

TEST_P(VirtualMemoryContract, RejectsAnotherDevicesMappings) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const MappedRange theirs = map_range(granule_bytes(), other());
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().unmap(theirs.range));
    expect_invalid_argument(
        device().set_access(theirs.range, properties().index, Access::kReadWrite));
    expect_invalid_argument(
        device().set_access(theirs.range, other().properties().index, Access::kNone));
  }
  EXPECT_TRUE(is_usable(theirs.range.begin, other()));
}

TEST_P(VirtualMemoryContract, MappingCallsDoNotWaitForWorkOnOtherRanges) {
  const size_t granule = granule_bytes();
  const MappedRange busy = map_range(granule);
  const MappedRange quiet = map_range(granule);
  const StreamId stream = create_stream();
  StreamGate& gate = block_stream(stream);
  require_ok(device().fill(busy.range.begin, 77, granule, stream));
  unmap_now(quiet.range);
  map_accessible(quiet.range.begin, quiet.extent, granule);
  release_now(quiet.extent);
  unmap_now(quiet.range);
  create(granule);
  reserve(granule);
  EXPECT_TRUE(gate.is_closed()) << "a call waited for work in a stream";
  gate.open();
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(busy.range.begin, granule), Bytes(granule, 77));
}

}  // namespace ashlar::contract
