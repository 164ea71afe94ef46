// SPDX-License-Identifier: Apache-2.0
//
// Tests the memory of the simulated device: sparseness, merged mappings, limits, bookkeeping mode.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/text.h"
#include "machine_fixture.h"

namespace ashlar::sim {
namespace {

size_t kernel_mapping_count() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  size_t total = 0;
  size_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(SimMemoryTest, UntouchedMemoryUsesNoHostMemory) {
  Options options;
  options.device_count = 8;
  const std::unique_ptr<Machine> machine = make_machine(options);
  const size_t before = resident_bytes();
  for (size_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(machine->device(DeviceIndex(i)).allocate(140 * kGiB).ok());
  }
  EXPECT_LT(resident_bytes() - before, 16 * kMiB);
}

TEST(SimMemoryTest, ReleasedMemoryReturnsToTheHost) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  Device& device = machine->device(kFirst);
  const DeviceAddress at = *device.allocate(64 * kMiB);
  ASSERT_TRUE(device.fill(at, 1, 64 * kMiB, kDefaultStream).ok());
  ASSERT_TRUE(device.synchronize_device().ok());
  EXPECT_GT(resident_bytes(), 64 * kMiB);
  const size_t full = resident_bytes();
  ASSERT_TRUE(device.free(at).ok());
  EXPECT_LT(resident_bytes(), full - 60 * kMiB);
}

TEST(SimMemoryTest, AdjacentExtentsShareOneKernelMapping) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  const size_t before = kernel_mapping_count();
  const MappedRange mapped = map_extents(machine->device(kFirst), 256);
  // Sanitizers may add a few mappings. One mapping per extent would add 256.
  EXPECT_LE(kernel_mapping_count(), before + 64);
}

TEST(SimMemoryTest, MappingLimitCountsRunsAndIsOutOfMemory) {
  Options options = small_options();
  options.max_mappings = 4;
  const std::unique_ptr<Machine> machine = make_machine(options);
  Device& device = machine->device(kFirst);
  const size_t granule = device.properties().granularity_bytes;
  const MappedRange one_run = map_extents(device, 16);

  const DeviceAddress apart = *device.reserve(16 * granule);
  Status last;
  size_t mapped = 0;
  for (; mapped < 8 && last.ok(); ++mapped) {
    last = device.map(apart + 2 * mapped * granule, *device.create(granule));
  }
  EXPECT_TRUE(last.is_out_of_memory()) << last.to_string();
  EXPECT_EQ(mapped, 4u) << "one run and three more fit";
  ASSERT_TRUE(device.unmap(one_run.range).ok());
  EXPECT_TRUE(device.map(apart + granule * 15, *device.create(granule)).ok());
}

TEST(SimMemoryTest, SplittingARunCountsBothParts) {
  Options options = small_options();
  options.max_mappings = 3;
  const std::unique_ptr<Machine> machine = make_machine(options);
  Device& device = machine->device(kFirst);
  const size_t granule = device.properties().granularity_bytes;
  const MappedRange run = map_extents(device, 3);
  const AddressRange middle{run.range.begin + granule, granule};
  ASSERT_TRUE(device.unmap(middle).ok());
  const DeviceAddress apart = *device.reserve(4 * granule);
  ASSERT_TRUE(device.map(apart, *device.create(granule)).ok());
  const ExtentId extent = *device.create(granule);
  EXPECT_TRUE(device.map(apart + 2 * granule, extent).is_out_of_memory());
  ASSERT_TRUE(device.unmap({apart, granule}).ok());
  ASSERT_TRUE(device.map(middle.begin, run.extents[1]).ok());
  ASSERT_TRUE(device.set_access(middle, kFirst, Access::kReadWrite).ok());
  EXPECT_TRUE(device.map(apart, extent).ok());
  EXPECT_TRUE(device.map(apart + 2 * granule, extent).ok()) << "the parts form one run again";
}

TEST(SimMemoryTest, RejectsImportOfUnsealedFiles) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  Device& device = machine->device(kFirst);
  UniqueFd unsealed(::memfd_create("trap", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(unsealed.get(), 2 * kMiB), 0);
  EXPECT_EQ(device.import_fd(unsealed.get(), 2 * kMiB).status().kind(),
            StatusKind::kInvalidArgument);
  UniqueFd null_device(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(device.import_fd(null_device.get(), 2 * kMiB).status().kind(),
            StatusKind::kInvalidArgument);
}

TEST(SimMemoryTest, ImporterCannotShrinkAnExportedExtent) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  Device& device = machine->device(kFirst);
  const ExtentId extent = *device.create(2 * kMiB, {.can_export_fd = true});
  const UniqueFd fd = *device.export_fd(extent);
  EXPECT_NE(::ftruncate(fd.get(), 0), 0);
}

TEST(SimMemoryTest, RejectsTamperedHandles) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  Device& device = machine->device(kFirst);
  const ExtentId extent = *device.create(2 * kMiB, {.can_export_fabric = true});
  const FabricHandle good = *device.export_fabric(extent);
  EXPECT_TRUE(device.import_fabric(good, 2 * kMiB).ok());
  EXPECT_EQ(device.open_allocation(good).status().kind(), StatusKind::kInvalidArgument);
  for (size_t i = 0; i < good.size(); ++i) {
    FabricHandle bad = good;  // one byte is changed; only the PID is not checked
    bad[i] = static_cast<uint8_t>(bad[i] + 1);
    const Result<ExtentId> imported = device.import_fabric(bad, 2 * kMiB);
    const bool is_pid = i >= 8 && i < 12;
    EXPECT_EQ(imported.ok(), is_pid) << "byte " << i;
  }
}

TEST(BookkeepingTest, BookkeepingNeedsNoMappings) {
  Options options;
  options.backing = Backing::kBookkeeping;
  const std::unique_ptr<Machine> machine = make_machine(options);
  Device& device = machine->device(kFirst);
  const size_t before = kernel_mapping_count();
  std::vector<DeviceAddress> live;
  for (int i = 0; i < 70000; ++i) {
    Result<DeviceAddress> at = device.allocate(2 * kMiB);
    ASSERT_TRUE(at.ok()) << i << ": " << at.status().to_string();
    live.push_back(*at);
  }
  EXPECT_LE(kernel_mapping_count(), before + 1000) << "threads of the test and of sanitizers";
  for (DeviceAddress at : live) ASSERT_TRUE(device.free(at).ok());
  for (int i = 0; i < 200'000; ++i) ASSERT_TRUE(device.free(*device.allocate(2 * kMiB)).ok());
  EXPECT_EQ(device.memory_stats()->free_bytes, options.capacity_bytes);
}

TEST(BookkeepingTest, BookkeepingAcceptsWorkWithoutEffect) {
  Options options = small_options();
  options.backing = Backing::kBookkeeping;
  const std::unique_ptr<Machine> machine = make_machine(options);
  Device& device = machine->device(kFirst);
  const DeviceAddress at = *device.allocate(kMiB);
  char byte = 'a';
  bool kernel_ran = false;
  EXPECT_TRUE(device.fill(at, 1, kMiB, kDefaultStream).ok());
  EXPECT_TRUE(device.copy_to_host(&byte, at, 1, kDefaultStream).ok());
  EXPECT_TRUE(machine
                  ->try_launch(kFirst, kDefaultStream,
                               [&](const DeviceMemory&) {
                                 kernel_ran = true;
                                 return Status();
                               })
                  .ok());
  EXPECT_TRUE(device.synchronize_device().ok());
  EXPECT_EQ(byte, 'a');
  EXPECT_FALSE(kernel_ran);
  EXPECT_EQ(machine->memory(kFirst).try_view<char>(at, 1).status().kind(),
            StatusKind::kUnsupported);
  EXPECT_EQ(device.create(2 * kMiB, {.can_export_fd = true}).status().kind(),
            StatusKind::kUnsupported);
  EXPECT_EQ(device.fill(at + kMiB, 1, 1, kDefaultStream).kind(), StatusKind::kInvalidArgument)
      << "ranges must be checked";
}

TEST(BookkeepingTest, AddressPolicyChoosesFreeAddresses) {
  Options options = small_options();
  options.backing = Backing::kBookkeeping;
  const std::unique_ptr<Machine> machine = make_machine(options);
  Device& device = machine->device(kFirst);
  const DeviceAddress chosen(0x7f0000000000);
  size_t requested_bytes = 0;
  machine->set_address_policy(kFirst, [&](size_t bytes) {
    requested_bytes = bytes;
    return chosen;
  });
  EXPECT_EQ(*device.allocate(3 * kMiB), chosen);
  EXPECT_EQ(requested_bytes, 4 * kMiB);
  EXPECT_NE(*device.allocate(2 * kMiB), chosen);
  machine->set_next_address(kFirst, chosen + kGiB);
  EXPECT_EQ(*device.allocate(2 * kMiB), chosen + kGiB) << "set_next_address takes precedence";
  machine->set_address_policy(kFirst, {});
  requested_bytes = 0;
  EXPECT_TRUE(device.allocate(2 * kMiB).ok());
  EXPECT_EQ(requested_bytes, 0U);
}

TEST(BookkeepingTest, ReserveHonoursAFreeHint) {
  Options options = small_options();
  options.backing = Backing::kBookkeeping;
  const std::unique_ptr<Machine> machine = make_machine(options);
  Device& device = machine->device(kFirst);
  const DeviceAddress chosen(0x7f0000000000);
  EXPECT_EQ(*device.reserve(4 * kMiB, {.hint = chosen}), chosen);
  EXPECT_NE(*device.reserve(4 * kMiB, {.hint = chosen + 2 * kMiB}), chosen + 2 * kMiB);
}

TEST(MachineOptionsTest, RejectsInvalidOptionsByName) {
  const auto refused = [](const Options& options, const std::string& named) {
    const Status status = Machine::try_create(options).status();
    EXPECT_EQ(status.kind(), StatusKind::kInvalidArgument);
    EXPECT_NE(status.message().find(named), std::string::npos) << status.to_string();
  };
  refused({.device_count = 0}, "device_count: 0");
  refused({.device_count = 65}, "device_count: 65");
  refused({.capacity_bytes = 0}, "capacity_bytes");
  refused({.capacity_bytes = size_t{1} << 50}, "capacity_bytes");
  refused({.granularity_bytes = 3 * kMiB}, "granularity_bytes");
  refused({.granularity_bytes = 4096}, "granularity_bytes");
}

}  // namespace
}  // namespace ashlar::sim
