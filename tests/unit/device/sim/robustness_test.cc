// SPDX-License-Identifier: Apache-2.0
//
// Tests the robustness of the simulated machine: device loss during waits, throwing kernels, forged
// descriptors and continuous work.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "base/text.h"
#include "machine_fixture.h"

namespace ashlar::sim {
namespace {

TEST(DeviceLossTest, WaitForAPausedStreamReturnsOnDeviceLoss) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  Device& device = machine->device(kFirst);
  const StreamId stream = *device.create_stream();
  ASSERT_TRUE(machine->pause_stream(kFirst, stream).ok());
  ASSERT_TRUE(device.call_host(stream, [] {}).ok());
  Status waited;
  std::thread waiter([&] { waited = device.synchronize_stream(stream); });
  while (machine->costs(kFirst).count_of(DeviceCall::kCallHost) == 0) std::this_thread::yield();
  machine->lose(kFirst, Status::device_lost("test", 1, "pulled out"));
  waiter.join();
  EXPECT_EQ(waited.kind(), StatusKind::kDeviceLost) << waited.to_string();
}

// The failing worker accesses all streams, including its own, while the machine is destroyed.
TEST(DeviceLossTest, DestructorWaitsForFailingWork) {
  for (int i = 0; i < 300; ++i) {
    std::unique_ptr<Machine> machine = make_machine(small_options());
    std::atomic<bool> is_running{false};
    const Status launched =
        machine->try_launch(kFirst, kDefaultStream, [&is_running](const DeviceMemory&) {
          is_running = true;
          return Status::device_fault("test", 1, "went wrong");
        });
    ASSERT_TRUE(launched.ok());
    while (!is_running) std::this_thread::yield();
    machine.reset();
  }
}

TEST(DeviceLossTest, WaitForAPausedDevicesEventReturnsOnLoss) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  Device& first = machine->device(kFirst);
  Device& second = machine->device(kSecond);
  const EventId event = *second.create_event();
  ASSERT_TRUE(machine->pause_stream(kSecond, kDefaultStream).ok());
  ASSERT_TRUE(second.call_host(kDefaultStream, [] {}).ok());
  ASSERT_TRUE(second.record_event(event, kDefaultStream).ok());
  ASSERT_TRUE(first.wait_event(kDefaultStream, event).ok());
  std::thread waiter(
      [&] { EXPECT_EQ(first.synchronize_device().kind(), StatusKind::kDeviceLost); });
  machine->lose(kFirst, Status::device_lost("test", 1, "pulled out"));
  waiter.join();
}

TEST(DeviceLossTest, CapturesOfALostDeviceRestrictNoOtherDevice) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  const StreamId stream = *machine->device(kFirst).create_stream();
  ASSERT_TRUE(machine->device(kFirst).begin_capture(stream, CaptureMode::kGlobal).ok());
  machine->lose(kFirst, Status::device_lost("test", 1, "pulled out"));
  EXPECT_TRUE(machine->device(kSecond).allocate(kMiB).ok());
  EXPECT_TRUE(machine->device(kSecond).synchronize_device().ok());
}

TEST(DeviceLossTest, ThrowingKernelLosesOnlyItsDevice) {
  for (const bool seeded : {false, true}) {
    Options options = small_options();
    if (seeded) options.seed = 1;
    const std::unique_ptr<Machine> machine = make_machine(options);
    ASSERT_TRUE(machine
                    ->try_launch(kFirst, kDefaultStream,
                                 [](const DeviceMemory&) -> Status {
                                   throw std::runtime_error("out of ideas");
                                 })
                    .ok());
    const Status waited = machine->device(kFirst).synchronize_device();
    EXPECT_EQ(waited.kind(), StatusKind::kDeviceLost);
    EXPECT_NE(waited.message().find("out of ideas"), std::string::npos) << waited.to_string();
    EXPECT_TRUE(machine->device(kSecond).synchronize_device().ok());
  }
}

TEST(PausedStreamTest, DestroyingAPausedStreamRunsItsWork) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  Device& device = machine->device(kFirst);
  const StreamId stream = *device.create_stream();
  std::atomic<bool> ran{false};
  ASSERT_TRUE(machine->pause_stream(kFirst, stream).ok());
  ASSERT_TRUE(device.call_host(stream, [&] { ran = true; }).ok());
  ASSERT_TRUE(device.destroy_stream(stream).ok());
  ASSERT_TRUE(device.synchronize_device().ok());
  EXPECT_TRUE(ran);
}

TEST(CreateTest, TooLargeExportableExtentIsOutOfMemory) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  Device& device = machine->device(kFirst);
  for (size_t bytes : {2 * kGiB, size_t{1} << 63}) {
    const Status refused = device.create(bytes, {.can_export_fd = true}).status();
    EXPECT_TRUE(refused.is_out_of_memory()) << refused.to_string();
  }
  EXPECT_EQ(device.memory_stats()->free_bytes, kGiB);
}

TEST(ImportTest, RejectsReadOnlyDescriptors) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  Device& device = machine->device(kFirst);
  UniqueFd sealed(::memfd_create("trap", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(sealed.get(), 2 * kMiB), 0);
  ASSERT_EQ(::fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
  EXPECT_EQ(device.import_fd(sealed.get(), 2 * kMiB).status().kind(), StatusKind::kInvalidArgument);

  const ExtentId extent = *device.create(2 * kMiB, {.can_export_fd = true});
  const UniqueFd exported = *device.export_fd(extent);
  const UniqueFd read_only(
      ::open(text("/proc/self/fd/", exported.get()).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(read_only.valid());
  EXPECT_EQ(device.import_fd(read_only.get(), 2 * kMiB).status().kind(),
            StatusKind::kInvalidArgument);
}

TEST(ImportTest, FabricImportCannotBeExportedByFd) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  Device& device = machine->device(kFirst);
  const ExtentId extent = *device.create(2 * kMiB, {.can_export_fabric = true});
  const FabricHandle handle = *device.export_fabric(extent);
  const ExtentId imported = *device.import_fabric(handle, 2 * kMiB);
  EXPECT_EQ(device.export_fd(imported).status().kind(), StatusKind::kInvalidArgument);
}

TEST(HostAccessDeathTest, AccessBeyondAnAllocationFaults) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  const DeviceAddress at = *machine->device(kFirst).allocate(64 * kKiB);
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(at.value() + 64 * kKiB) = 1, "");
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(at.value() - 1) = 1, "");
}

TEST(ProtectionTest, DifferentProtectionSplitsAKernelMapping) {
  Options options = small_options();
  options.max_mappings = 4;
  const std::unique_ptr<Machine> machine = make_machine(options);
  Device& device = machine->device(kFirst);
  const size_t granule = device.properties().granularity_bytes;
  const MappedRange mapped = map_extents(device, 16);
  Status last;
  size_t closed = 0;
  while (last.ok() && closed < 8) {
    last = device.set_access({mapped.range.begin + (2 * closed + 1) * granule, granule}, kFirst,
                             Access::kNone);
    if (last.ok()) ++closed;
  }
  EXPECT_TRUE(last.is_out_of_memory()) << last.to_string();
  EXPECT_EQ(closed, 1u) << "each hole makes two more runs";
  EXPECT_TRUE(device.set_access(mapped.range, kFirst, Access::kReadWrite).ok());
}

// Two streams copy continuously; mapping must not starve.
TEST(SimWorkConcurrencyTest, MappingSucceedsDuringContinuousCopies) {
  const std::unique_ptr<Machine> machine = make_machine(small_options());
  Device& device = machine->device(kFirst);
  std::atomic<bool> stop{false};
  std::vector<std::thread> copiers;
  for (int i = 0; i < 2; ++i) {
    copiers.emplace_back([&] {
      const StreamId stream = *device.create_stream();
      const DeviceAddress at = *device.allocate(64 * kMiB);
      while (!stop) {
        EXPECT_TRUE(device.fill(at, 1, 64 * kMiB, stream).ok());
        EXPECT_TRUE(device.synchronize_stream(stream).ok());
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    const MappedRange mapped = map_extents(device, 2);
    EXPECT_TRUE(device.unmap(mapped.range).ok());
    EXPECT_TRUE(device.free_addresses(mapped.range).ok());
  }
  stop = true;
  for (std::thread& copier : copiers) copier.join();
}

}  // namespace
}  // namespace ashlar::sim
