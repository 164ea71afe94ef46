// SPDX-License-Identifier: Apache-2.0
//
// Tests export and import within one process: file descriptors, fabric handles, shared allocations.
// tests/mp/ covers several processes.
#include <fcntl.h>
#include <unistd.h>

#include "device_contract.h"

namespace ashlar::contract {
namespace {

constexpr char kNoFd[] = "the device does not export file descriptors";
constexpr char kNoFabric[] = "the device does not export fabric handles";
constexpr char kCannotExportImported[] = "the device does not export what was imported";
constexpr char kNoShared[] = "the device does not share allocations";
constexpr CreateOptions kByFd{.can_export_fd = true, .can_export_fabric = false};
constexpr CreateOptions kByFabric{.can_export_fd = false, .can_export_fabric = true};

bool is_open(int fd) { return fcntl(fd, F_GETFD) != -1; }

}  // namespace

// --- file descriptors

TEST_P(SharingContract, ImportedExtentIsTheExportersMemory) {
  if (!properties().can_export_fd) GTEST_SKIP() << kNoFd;
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserve(2 * granule);
  const ExtentId extent = create(granule, kByFd);
  map_accessible(begin, extent, granule);
  UniqueFd fd = require_ok(device().export_fd(extent));
  const size_t before = free_bytes();
  const ExtentId imported = require_ok(device().import_fd(fd.get(), granule));
  track_extent(imported);
  EXPECT_TRUE(is_open(fd.get())) << "the caller keeps the descriptor";
  EXPECT_TRUE(equal_within_slack(free_bytes(), before)) << "an import uses no memory";
  map_accessible(begin + granule, imported, granule);
  write(begin, pattern(granule, 1));
  EXPECT_EQ(read_back(begin + granule, granule), pattern(granule, 1));
  write(begin + granule, pattern(granule, 2));
  EXPECT_EQ(read_back(begin, granule), pattern(granule, 2));
}

TEST_P(SharingContract, EachExportReturnsANewDescriptor) {
  if (!properties().can_export_fd) GTEST_SKIP() << kNoFd;
  const ExtentId extent = create(granule_bytes(), kByFd);
  UniqueFd first = require_ok(device().export_fd(extent));
  UniqueFd second = require_ok(device().export_fd(extent));
  EXPECT_NE(first.get(), second.get());
  first.reset();
  EXPECT_TRUE(is_open(second.get()));
  track_extent(require_ok(device().import_fd(second.get(), granule_bytes())));
}

TEST_P(SharingContract, ImportOutlivesExporterIdAndDescriptor) {
  if (!properties().can_export_fd) GTEST_SKIP() << kNoFd;
  const size_t granule = granule_bytes();
  const size_t before = free_bytes();
  const ExtentId extent = create(granule, kByFd);
  UniqueFd fd = require_ok(device().export_fd(extent));
  const ExtentId imported = require_ok(device().import_fd(fd.get(), granule));
  track_extent(imported);
  fd.reset();
  release_now(extent);
  EXPECT_TRUE(equal_within_slack(free_bytes(), before - granule));
  const AddressRange range{reserve(granule), granule};
  map_accessible(range.begin, imported, granule);
  EXPECT_TRUE(is_usable(range.begin));
  release_now(imported);
  EXPECT_TRUE(equal_within_slack(free_bytes(), before - granule));
  unmap_now(range);
  EXPECT_TRUE(equal_within_slack(free_bytes(), before));
}

TEST_P(SharingContract, DescriptorOutlivesTheExportersId) {
  if (!properties().can_export_fd) GTEST_SKIP() << kNoFd;
  const size_t granule = granule_bytes();
  const AddressRange range{reserve(granule), granule};
  const ExtentId extent = create(granule, kByFd);
  map_accessible(range.begin, extent, granule);
  write(range.begin, pattern(granule, 61));
  UniqueFd fd = require_ok(device().export_fd(extent));
  unmap_now(range);
  release_now(extent);
  const ExtentId imported = require_ok(device().import_fd(fd.get(), granule));
  track_extent(imported);
  fd.reset();
  map_accessible(range.begin, imported, granule);
  EXPECT_EQ(read_back(range.begin, granule), pattern(granule, 61));
}

TEST_P(SharingContract, TwoImportsAreReleasedIndependently) {
  if (!properties().can_export_fd) GTEST_SKIP() << kNoFd;
  const size_t granule = granule_bytes();
  const ExtentId extent = create(granule, kByFd);
  UniqueFd fd = require_ok(device().export_fd(extent));
  const ExtentId first = require_ok(device().import_fd(fd.get(), granule));
  track_extent(first);
  const ExtentId second = require_ok(device().import_fd(fd.get(), granule));
  track_extent(second);
  release_now(first);
  expect_invalid_argument(device().release(first));
  const DeviceAddress begin = reserve(granule);
  map_accessible(begin, second, granule);
  EXPECT_TRUE(is_usable(begin));
}

TEST_P(SharingContract, ImportedExtentCanBeExportedAgain) {
  if (!properties().can_export_fd) GTEST_SKIP() << kNoFd;
  if (!properties().can_export_imported) GTEST_SKIP() << kCannotExportImported;
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserve(2 * granule);
  const ExtentId extent = create(granule, kByFd);
  map_accessible(begin, extent, granule);
  UniqueFd fd = require_ok(device().export_fd(extent));
  const ExtentId imported = require_ok(device().import_fd(fd.get(), granule));
  track_extent(imported);
  UniqueFd again = require_ok(device().export_fd(imported));
  const ExtentId twice = require_ok(device().import_fd(again.get(), granule));
  track_extent(twice);
  map_accessible(begin + granule, twice, granule);
  write(begin, pattern(512, 4));
  EXPECT_EQ(read_back(begin + granule, 512), pattern(512, 4));
}

TEST_P(SharingContract, ExportFdRejectsExtentsCreatedWithoutIt) {
  if (!properties().can_export_fd) GTEST_SKIP() << kNoFd;
  const ExtentId plain = create(granule_bytes());
  const ExtentId released = require_ok(device().create(granule_bytes(), kByFd));
  require_ok(device().release(released));
  const MemoryUnchangedCheck unchanged(*this);
  expect_invalid_argument(device().export_fd(plain));
  expect_invalid_argument(device().export_fd(released));
  expect_invalid_argument(device().export_fd(unknown_id<ExtentId>()));
}

TEST_P(SharingContract, ExportFdRejectsAnotherDevicesExtent) {
  if (!properties().can_export_fd) GTEST_SKIP() << kNoFd;
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const ExtentId mine = create(granule_bytes(), kByFd);
  expect_error(StatusKind::kInvalidArgument, other(), other().export_fd(mine));
  EXPECT_TRUE(ok(device().export_fd(mine)));
}

TEST_P(SharingContract, ImportFdRejectsOtherDescriptorsAndSizes) {
  if (!properties().can_export_fd) GTEST_SKIP() << kNoFd;
  const size_t granule = granule_bytes();
  const ExtentId extent = create(2 * granule, kByFd);
  UniqueFd fd = require_ok(device().export_fd(extent));
  UniqueFd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(file.valid());
  int pipe_ends[2] = {-1, -1};
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  UniqueFd reader(pipe_ends[0]);
  UniqueFd writer(pipe_ends[1]);
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().import_fd(-1, granule));
    expect_invalid_argument(device().import_fd(1 << 20, granule));
    expect_invalid_argument(device().import_fd(file.get(), granule));
    expect_invalid_argument(device().import_fd(reader.get(), granule));
    expect_invalid_argument(device().import_fd(writer.get(), granule));
    for (const size_t wrong :
         {size_t{0}, size_t{1}, granule, 2 * granule - 1, 3 * granule, SIZE_MAX - granule + 1}) {
      SCOPED_TRACE(wrong);
      expect_invalid_argument(device().import_fd(fd.get(), wrong));
    }
  }
  EXPECT_TRUE(is_open(fd.get()));
  EXPECT_TRUE(is_open(file.get()));
  EXPECT_TRUE(is_open(reader.get()));
  track_extent(require_ok(device().import_fd(fd.get(), 2 * granule)));
}

// --- fabric handles

TEST_P(SharingContract, FabricImportIsTheExportersMemory) {
  if (!properties().can_export_fabric) GTEST_SKIP() << kNoFabric;
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserve(2 * granule);
  const ExtentId extent = create(granule, kByFabric);
  map_accessible(begin, extent, granule);
  const FabricHandle handle = require_ok(device().export_fabric(extent));
  const ExtentId imported = require_ok(device().import_fabric(handle, granule));
  track_extent(imported);
  map_accessible(begin + granule, imported, granule);
  write(begin, pattern(granule, 7));
  EXPECT_EQ(read_back(begin + granule, granule), pattern(granule, 7));
}

TEST_P(SharingContract, FabricImportOutlivesTheExportersId) {
  if (!properties().can_export_fabric) GTEST_SKIP() << kNoFabric;
  const size_t granule = granule_bytes();
  const size_t before = free_bytes();
  const ExtentId extent = create(granule, kByFabric);
  const FabricHandle handle = require_ok(device().export_fabric(extent));
  const ExtentId imported = require_ok(device().import_fabric(handle, granule));
  track_extent(imported);
  release_now(extent);
  EXPECT_TRUE(equal_within_slack(free_bytes(), before - granule));
  release_now(imported);
  EXPECT_TRUE(equal_within_slack(free_bytes(), before));
  expect_error(StatusKind::kDeviceFault, device(), device().import_fabric(handle, granule));
}

TEST_P(SharingContract, FabricImportCanBeExportedAgain) {
  if (!properties().can_export_fabric) GTEST_SKIP() << kNoFabric;
  if (!properties().can_export_imported) GTEST_SKIP() << kCannotExportImported;
  const ExtentId extent = create(granule_bytes(), kByFabric);
  const FabricHandle handle = require_ok(device().export_fabric(extent));
  const ExtentId imported = require_ok(device().import_fabric(handle, granule_bytes()));
  track_extent(imported);
  const FabricHandle again = require_ok(device().export_fabric(imported));
  track_extent(require_ok(device().import_fabric(again, granule_bytes())));
}

TEST_P(SharingContract, FabricImportCannotBeExportedAsDescriptor) {
  if (!properties().can_export_fabric) GTEST_SKIP() << kNoFabric;
  if (!properties().can_export_fd) GTEST_SKIP() << kNoFd;
  const ExtentId extent = create(granule_bytes(), kByFabric);
  const FabricHandle handle = require_ok(device().export_fabric(extent));
  const ExtentId imported = require_ok(device().import_fabric(handle, granule_bytes()));
  track_extent(imported);
  expect_invalid_argument(device().export_fd(extent));
  expect_invalid_argument(device().export_fd(imported));
}

TEST_P(SharingContract, ExportFabricRejectsExtentsCreatedWithoutIt) {
  if (!properties().can_export_fabric) GTEST_SKIP() << kNoFabric;
  const ExtentId plain = create(granule_bytes());
  const ExtentId released = require_ok(device().create(granule_bytes(), kByFabric));
  require_ok(device().release(released));
  const MemoryUnchangedCheck unchanged(*this);
  expect_invalid_argument(device().export_fabric(plain));
  expect_invalid_argument(device().export_fabric(released));
  expect_invalid_argument(device().export_fabric(unknown_id<ExtentId>()));
}

TEST_P(SharingContract, ImportFabricRejectsOtherHandlesAndSizes) {
  if (!properties().can_export_fabric) GTEST_SKIP() << kNoFabric;
  const size_t granule = granule_bytes();
  const ExtentId extent = create(2 * granule, kByFabric);
  const FabricHandle handle = require_ok(device().export_fabric(extent));
  FabricHandle zeros{};
  FabricHandle ones{};
  ones.fill(0xff);
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().import_fabric(zeros, granule));
    expect_invalid_argument(device().import_fabric(ones, granule));
    for (const size_t wrong : {size_t{0}, size_t{1}, granule, 3 * granule}) {
      SCOPED_TRACE(wrong);
      expect_invalid_argument(device().import_fabric(handle, wrong));
    }
  }
  track_extent(require_ok(device().import_fabric(handle, 2 * granule)));
}

// --- shared allocations

TEST_P(SharingContract, SharingDoesNotChangeAnAllocation) {
  if (!properties().can_share_allocations) GTEST_SKIP() << kNoShared;
  const DeviceAddress address = allocate(granule_bytes());
  const MemoryUnchangedCheck unchanged(*this);
  EXPECT_TRUE(ok(device().share_allocation(address)));
  EXPECT_TRUE(ok(device().share_allocation(address)));
  EXPECT_TRUE(is_usable(address));
}

TEST_P(SharingContract, ShareAllocationRejectsOtherAddresses) {
  if (!properties().can_share_allocations) GTEST_SKIP() << kNoShared;
  const DeviceAddress address = allocate(granule_bytes());
  const DeviceAddress freed = require_ok(device().allocate(granule_bytes()));
  require_ok(device().free(freed));
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().share_allocation({}));
    expect_invalid_argument(device().share_allocation(address + 1));
    expect_invalid_argument(device().share_allocation(freed));
    expect_invalid_argument(device().share_allocation(unknown_id<DeviceAddress>()));
    if (has_other()) {
      expect_error(StatusKind::kInvalidArgument, other(), other().share_allocation(address));
    }
  }
  EXPECT_TRUE(ok(device().share_allocation(address)));
}

TEST_P(SharingContract, OpenAndCloseAllocationRejectUnknownHandles) {
  if (!properties().can_share_allocations) GTEST_SKIP() << kNoShared;
  const DeviceAddress mine = allocate(granule_bytes());
  AllocationHandle ones{};
  ones.fill(0xff);
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().open_allocation(AllocationHandle{}));
    expect_invalid_argument(device().open_allocation(ones));
    expect_invalid_argument(device().close_allocation({}));
    expect_invalid_argument(device().close_allocation(mine));
    expect_invalid_argument(device().close_allocation(unknown_id<DeviceAddress>()));
  }
  EXPECT_TRUE(is_usable(mine));
}

TEST_P(SharingContract, AllocationOpenedInItsOwnProcessIsTheSameMemory) {
  if (!properties().can_share_allocations) GTEST_SKIP() << kNoShared;
  const DeviceAddress mine = allocate(granule_bytes());
  const AllocationHandle handle = require_ok(device().share_allocation(mine));
  const Result<DeviceAddress> opened = device().open_allocation(handle);
  if (!opened.ok()) {
    GTEST_SKIP() << "only other processes can open it: " << opened.status().to_string();
  }
  write(mine, pattern(512, 14));
  EXPECT_EQ(read_back(*opened, 512), pattern(512, 14));
  expect_invalid_argument(device().close_allocation(*opened + 1));
  if (*opened != mine) expect_invalid_argument(device().free(*opened));
  require_ok(device().close_allocation(*opened));
  expect_invalid_argument(device().close_allocation(*opened));
  EXPECT_EQ(read_back(mine, 512), pattern(512, 14));
}

}  // namespace ashlar::contract
