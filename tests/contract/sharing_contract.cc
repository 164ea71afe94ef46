// SPDX-License-Identifier: Apache-2.0
//
// Export and import within one process: file descriptors, fabric handles, shared allocations. What
// crosses processes, and processes that die, are tested elsewhere.
#include <fcntl.h>
#include <unistd.h>

#include "device_contract.h"

namespace ashlar::contract {
namespace {

constexpr char kNoFd[] = "the device does not export file descriptors";
constexpr char kNoFabric[] = "the device does not export fabric handles";
constexpr char kNotAgain[] = "the device does not export what was imported";
constexpr char kNoShared[] = "the device does not share allocations";
constexpr CreateOptions kByFd{.export_fd = true, .export_fabric = false};
constexpr CreateOptions kByFabric{.export_fd = false, .export_fabric = true};

bool is_open(int fd) { return fcntl(fd, F_GETFD) != -1; }

}  // namespace

// --- file descriptors ---------------------------------------------------------------------------

TEST_P(SharingContract, AnImportedExtentIsTheExportersMemory) {
  if (!properties().can_export_fd) GTEST_SKIP() << kNoFd;
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserved(2 * granule);
  const ExtentId extent = created(granule, kByFd);
  map_accessible(begin, extent, granule);
  UniqueFd fd = must(device().export_fd(extent));
  const size_t before = free_bytes();
  const ExtentId imported = must(device().import_fd(fd.get(), granule));
  keep_extent(imported);
  EXPECT_TRUE(is_open(fd.get())) << "the descriptor stays the caller's";
  EXPECT_TRUE(same_use(free_bytes(), before)) << "an import takes no memory";
  map_accessible(begin + granule, imported, granule);
  write(begin, pattern(granule, 1));
  EXPECT_EQ(read_back(begin + granule, granule), pattern(granule, 1));
  write(begin + granule, pattern(granule, 2));
  EXPECT_EQ(read_back(begin, granule), pattern(granule, 2));
}

TEST_P(SharingContract, EveryExportIsADescriptorOfItsOwn) {
  if (!properties().can_export_fd) GTEST_SKIP() << kNoFd;
  const ExtentId extent = created(granule_bytes(), kByFd);
  UniqueFd first = must(device().export_fd(extent));
  UniqueFd second = must(device().export_fd(extent));
  EXPECT_NE(first.get(), second.get());
  first.reset();
  EXPECT_TRUE(is_open(second.get()));
  keep_extent(must(device().import_fd(second.get(), granule_bytes())));
}

TEST_P(SharingContract, AnImportHoldsTheMemoryWhenTheExportersIdAndTheDescriptorAreGone) {
  if (!properties().can_export_fd) GTEST_SKIP() << kNoFd;
  const size_t granule = granule_bytes();
  const size_t before = free_bytes();
  const ExtentId extent = created(granule, kByFd);
  UniqueFd fd = must(device().export_fd(extent));
  const ExtentId imported = must(device().import_fd(fd.get(), granule));
  keep_extent(imported);
  fd.reset();
  release_now(extent);
  EXPECT_TRUE(same_use(free_bytes(), before - granule));
  const AddressRange range{reserved(granule), granule};
  map_accessible(range.begin, imported, granule);
  EXPECT_TRUE(holds_bytes(range.begin));
  release_now(imported);
  EXPECT_TRUE(same_use(free_bytes(), before - granule));
  unmap_now(range);
  EXPECT_TRUE(same_use(free_bytes(), before));
}

TEST_P(SharingContract, ADescriptorIsGoodForImportsAfterTheExporterReleasedTheExtent) {
  if (!properties().can_export_fd) GTEST_SKIP() << kNoFd;
  const size_t granule = granule_bytes();
  const AddressRange range{reserved(granule), granule};
  const ExtentId extent = created(granule, kByFd);
  map_accessible(range.begin, extent, granule);
  write(range.begin, pattern(granule, 61));
  UniqueFd fd = must(device().export_fd(extent));
  unmap_now(range);
  release_now(extent);
  const ExtentId imported = must(device().import_fd(fd.get(), granule));
  keep_extent(imported);
  fd.reset();
  map_accessible(range.begin, imported, granule);
  EXPECT_EQ(read_back(range.begin, granule), pattern(granule, 61));
}

TEST_P(SharingContract, TwoImportsAreReleasedIndependently) {
  if (!properties().can_export_fd) GTEST_SKIP() << kNoFd;
  const size_t granule = granule_bytes();
  const ExtentId extent = created(granule, kByFd);
  UniqueFd fd = must(device().export_fd(extent));
  const ExtentId first = must(device().import_fd(fd.get(), granule));
  keep_extent(first);
  const ExtentId second = must(device().import_fd(fd.get(), granule));
  keep_extent(second);
  release_now(first);
  expect_usage(device().release(first));
  const DeviceAddress begin = reserved(granule);
  map_accessible(begin, second, granule);
  EXPECT_TRUE(holds_bytes(begin));
}

TEST_P(SharingContract, AnImportedExtentCanBeExportedAgain) {
  if (!properties().can_export_fd) GTEST_SKIP() << kNoFd;
  if (!properties().can_export_imported) GTEST_SKIP() << kNotAgain;
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserved(2 * granule);
  const ExtentId extent = created(granule, kByFd);
  map_accessible(begin, extent, granule);
  UniqueFd fd = must(device().export_fd(extent));
  const ExtentId imported = must(device().import_fd(fd.get(), granule));
  keep_extent(imported);
  UniqueFd again = must(device().export_fd(imported));
  const ExtentId twice = must(device().import_fd(again.get(), granule));
  keep_extent(twice);
  map_accessible(begin + granule, twice, granule);
  write(begin, pattern(512, 4));
  EXPECT_EQ(read_back(begin + granule, 512), pattern(512, 4));
}

TEST_P(SharingContract, ExportFdRefusesExtentsThatWereNotMadeForIt) {
  if (!properties().can_export_fd) GTEST_SKIP() << kNoFd;
  const ExtentId plain = created(granule_bytes());
  const ExtentId released = must(device().create(granule_bytes(), kByFd));
  must(device().release(released));
  const Untouched untouched(*this);
  expect_usage(device().export_fd(plain));
  expect_usage(device().export_fd(released));
  expect_usage(device().export_fd(never_given<ExtentId>()));
}

TEST_P(SharingContract, ExportFdRefusesAnotherDevicesExtent) {
  if (!properties().can_export_fd) GTEST_SKIP() << kNoFd;
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const ExtentId mine = created(granule_bytes(), kByFd);
  expect_refused(StatusKind::kInvalidArgument, other(), other().export_fd(mine));
  EXPECT_TRUE(ok(device().export_fd(mine)));
}

TEST_P(SharingContract, ImportFdRefusesDescriptorsThatAreNoExtentOfThatSize) {
  if (!properties().can_export_fd) GTEST_SKIP() << kNoFd;
  const size_t granule = granule_bytes();
  const ExtentId extent = created(2 * granule, kByFd);
  UniqueFd fd = must(device().export_fd(extent));
  UniqueFd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(file.valid());
  int pipe_ends[2] = {-1, -1};
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  UniqueFd reader(pipe_ends[0]);
  UniqueFd writer(pipe_ends[1]);
  {
    const Untouched untouched(*this);
    expect_usage(device().import_fd(-1, granule));
    expect_usage(device().import_fd(1 << 20, granule));
    expect_usage(device().import_fd(file.get(), granule));
    expect_usage(device().import_fd(reader.get(), granule));
    expect_usage(device().import_fd(writer.get(), granule));
    for (const size_t wrong :
         {size_t{0}, size_t{1}, granule, 2 * granule - 1, 3 * granule, SIZE_MAX - granule + 1}) {
      SCOPED_TRACE(wrong);
      expect_usage(device().import_fd(fd.get(), wrong));
    }
  }
  EXPECT_TRUE(is_open(fd.get()));
  EXPECT_TRUE(is_open(file.get()));
  EXPECT_TRUE(is_open(reader.get()));
  keep_extent(must(device().import_fd(fd.get(), 2 * granule)));
}

// --- fabric handles -----------------------------------------------------------------------------

TEST_P(SharingContract, AFabricHandleStandsForTheExportersMemory) {
  if (!properties().can_export_fabric) GTEST_SKIP() << kNoFabric;
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserved(2 * granule);
  const ExtentId extent = created(granule, kByFabric);
  map_accessible(begin, extent, granule);
  const FabricHandle handle = must(device().export_fabric(extent));
  const ExtentId imported = must(device().import_fabric(handle, granule));
  keep_extent(imported);
  map_accessible(begin + granule, imported, granule);
  write(begin, pattern(granule, 7));
  EXPECT_EQ(read_back(begin + granule, granule), pattern(granule, 7));
}

TEST_P(SharingContract, AnImportByFabricHandleOutlivesTheExportersId) {
  if (!properties().can_export_fabric) GTEST_SKIP() << kNoFabric;
  const size_t granule = granule_bytes();
  const size_t before = free_bytes();
  const ExtentId extent = created(granule, kByFabric);
  const FabricHandle handle = must(device().export_fabric(extent));
  const ExtentId imported = must(device().import_fabric(handle, granule));
  keep_extent(imported);
  release_now(extent);
  EXPECT_TRUE(same_use(free_bytes(), before - granule));
  release_now(imported);
  EXPECT_TRUE(same_use(free_bytes(), before));
  expect_refused(StatusKind::kDeviceFault, device(), device().import_fabric(handle, granule));
}

TEST_P(SharingContract, AnImportByFabricHandleCanBeExportedAgain) {
  if (!properties().can_export_fabric) GTEST_SKIP() << kNoFabric;
  if (!properties().can_export_imported) GTEST_SKIP() << kNotAgain;
  const ExtentId extent = created(granule_bytes(), kByFabric);
  const FabricHandle handle = must(device().export_fabric(extent));
  const ExtentId imported = must(device().import_fabric(handle, granule_bytes()));
  keep_extent(imported);
  const FabricHandle again = must(device().export_fabric(imported));
  keep_extent(must(device().import_fabric(again, granule_bytes())));
}

TEST_P(SharingContract, AnImportByFabricHandleIsNotExportedAsADescriptor) {
  if (!properties().can_export_fabric) GTEST_SKIP() << kNoFabric;
  if (!properties().can_export_fd) GTEST_SKIP() << kNoFd;
  const ExtentId extent = created(granule_bytes(), kByFabric);
  const FabricHandle handle = must(device().export_fabric(extent));
  const ExtentId imported = must(device().import_fabric(handle, granule_bytes()));
  keep_extent(imported);
  expect_usage(device().export_fd(extent));
  expect_usage(device().export_fd(imported));
}

TEST_P(SharingContract, ExportFabricRefusesExtentsThatWereNotMadeForIt) {
  if (!properties().can_export_fabric) GTEST_SKIP() << kNoFabric;
  const ExtentId plain = created(granule_bytes());
  const ExtentId released = must(device().create(granule_bytes(), kByFabric));
  must(device().release(released));
  const Untouched untouched(*this);
  expect_usage(device().export_fabric(plain));
  expect_usage(device().export_fabric(released));
  expect_usage(device().export_fabric(never_given<ExtentId>()));
}

TEST_P(SharingContract, ImportFabricRefusesWhatIsNoHandleOfAnExtentOfThatSize) {
  if (!properties().can_export_fabric) GTEST_SKIP() << kNoFabric;
  const size_t granule = granule_bytes();
  const ExtentId extent = created(2 * granule, kByFabric);
  const FabricHandle handle = must(device().export_fabric(extent));
  FabricHandle zeros{};
  FabricHandle ones{};
  ones.fill(0xff);
  {
    const Untouched untouched(*this);
    expect_usage(device().import_fabric(zeros, granule));
    expect_usage(device().import_fabric(ones, granule));
    for (const size_t wrong : {size_t{0}, size_t{1}, granule, 3 * granule}) {
      SCOPED_TRACE(wrong);
      expect_usage(device().import_fabric(handle, wrong));
    }
  }
  keep_extent(must(device().import_fabric(handle, 2 * granule)));
}

// --- shared allocations -------------------------------------------------------------------------

TEST_P(SharingContract, SharingAnAllocationLeavesItAsItWas) {
  if (!properties().can_share_allocations) GTEST_SKIP() << kNoShared;
  const DeviceAddress address = allocated(granule_bytes());
  const Untouched untouched(*this);
  EXPECT_TRUE(ok(device().share_allocation(address)));
  EXPECT_TRUE(ok(device().share_allocation(address)));
  EXPECT_TRUE(holds_bytes(address));
}

TEST_P(SharingContract, ShareAllocationRefusesWhatIsNotTheStartOfOne) {
  if (!properties().can_share_allocations) GTEST_SKIP() << kNoShared;
  const DeviceAddress address = allocated(granule_bytes());
  const DeviceAddress freed = must(device().allocate(granule_bytes()));
  must(device().free(freed));
  {
    const Untouched untouched(*this);
    expect_usage(device().share_allocation({}));
    expect_usage(device().share_allocation(address + 1));
    expect_usage(device().share_allocation(freed));
    expect_usage(device().share_allocation(never_given<DeviceAddress>()));
    if (has_other()) {
      expect_refused(StatusKind::kInvalidArgument, other(), other().share_allocation(address));
    }
  }
  EXPECT_TRUE(ok(device().share_allocation(address)));
}

TEST_P(SharingContract, OpenAndCloseAllocationRefuseWhatIsForeign) {
  if (!properties().can_share_allocations) GTEST_SKIP() << kNoShared;
  const DeviceAddress mine = allocated(granule_bytes());
  AllocationHandle ones{};
  ones.fill(0xff);
  {
    const Untouched untouched(*this);
    expect_usage(device().open_allocation(AllocationHandle{}));
    expect_usage(device().open_allocation(ones));
    expect_usage(device().close_allocation({}));
    expect_usage(device().close_allocation(mine));
    expect_usage(device().close_allocation(never_given<DeviceAddress>()));
  }
  EXPECT_TRUE(holds_bytes(mine));
}

TEST_P(SharingContract, AnAllocationOpenedInItsOwnProcessIsTheSameMemory) {
  if (!properties().can_share_allocations) GTEST_SKIP() << kNoShared;
  const DeviceAddress mine = allocated(granule_bytes());
  const AllocationHandle handle = must(device().share_allocation(mine));
  const Result<DeviceAddress> opened = device().open_allocation(handle);
  if (!opened.ok()) {
    GTEST_SKIP() << "only other processes can open it: " << opened.status().to_string();
  }
  write(mine, pattern(512, 14));
  EXPECT_EQ(read_back(*opened, 512), pattern(512, 14));
  expect_usage(device().close_allocation(*opened + 1));
  if (*opened != mine) expect_usage(device().free(*opened));
  must(device().close_allocation(*opened));
  expect_usage(device().close_allocation(*opened));
  EXPECT_EQ(read_back(mine, 512), pattern(512, 14));
}

}  // namespace ashlar::contract
