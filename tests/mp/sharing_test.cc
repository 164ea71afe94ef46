// SPDX-License-Identifier: Apache-2.0
//
// Simulated device memory shared between processes, including processes that are killed.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "ashlar/sim.h"
#include "base/fd_passing.h"
#include "base/units.h"
#include "mp/child_process.h"

namespace ashlar::sim {
namespace {

constexpr DeviceIndex kFirst{0};
constexpr size_t kExtentBytes = 4 * kMiB;

// One process's simulated machine, with helpers for the tests.
class DeviceProcess {
 public:
  DeviceProcess() {
    Options options;
    options.capacity_bytes = kGiB;
    machine_ = *Machine::try_create(options);
  }
  Device& device() { return machine_->device(kFirst); }

  // Maps the extent and releases its id; the mapping keeps the memory alive.
  DeviceAddress map(ExtentId extent) {
    const DeviceAddress at = *device().reserve(kExtentBytes);
    if (!device().map(at, extent).ok() || !device().release(extent).ok()) return {};
    const Status opened = device().set_access({at, kExtentBytes}, kFirst, Access::kReadWrite);
    return opened.ok() ? at : DeviceAddress();
  }
  bool write(DeviceAddress at, uint32_t value) {
    return device().copy_to_device(at, &value, sizeof(value), kDefaultStream).ok() &&
           device().synchronize_device().ok();
  }
  uint32_t read(DeviceAddress at) {
    uint32_t value = 0;
    EXPECT_TRUE(device().copy_to_host(&value, at, sizeof(value), kDefaultStream).ok());
    EXPECT_TRUE(device().synchronize_device().ok());
    return value;
  }
  void unmap(DeviceAddress at) {
    EXPECT_TRUE(device().unmap({at, kExtentBytes}).ok());
    EXPECT_TRUE(device().free_addresses({at, kExtentBytes}).ok());
  }

 private:
  std::unique_ptr<Machine> machine_;
};

// Sends an extent, exported as a descriptor, to the process at the other end of the socket.
bool send_extent(int socket_fd, Device& device, ExtentId extent) {
  Result<UniqueFd> fd = device.export_fd(extent);
  return fd.ok() &&
         send_message(socket_fd, std::array<uint8_t, 1>{1}, fd->get(), kTestTimeout).ok();
}

Result<ExtentId> receive_extent(int socket_fd, Device& device) {
  std::array<uint8_t, 1> byte{};
  Result<ReceivedMessage> message = receive_message(socket_fd, byte, kTestTimeout);
  if (!message.ok()) return message.status();
  return device.import_fd(message->fd.get(), kExtentBytes);
}

template <size_t N>
bool send_handle(int socket_fd, const std::array<uint8_t, N>& handle) {
  return send_message(socket_fd, handle, -1, kTestTimeout).ok();
}

FabricHandle receive_handle(int socket_fd) {
  FabricHandle handle{};
  EXPECT_TRUE(receive_message(socket_fd, handle, kTestTimeout).ok());
  return handle;
}

// Returns the files and local socket names of Ashlar, which could outlive a process.
std::set<std::string> ashlar_artifacts() {
  std::set<std::string> found;
  for (const char* folder : {"/dev/shm", "/tmp"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string path = entry.path().string();
      if (path.find("ashlar-") != std::string::npos) found.insert(path);
    }
  }
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const size_t name = line.find("@ashlar-fabric-");
    if (name != std::string::npos) found.insert(line.substr(name));
  }
  return found;
}

class SharingTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(ashlar_artifacts(), before_); }
  const std::set<std::string> before_ = ashlar_artifacts();
};

// Runs in the child: exports an extent that contains 111, and exits when notified. Some tests kill
// the child first.
int export_by_fd(int socket_fd) {
  DeviceProcess process;
  const ExtentId extent = *process.device().create(kExtentBytes, {.can_export_fd = true});
  if (!send_extent(socket_fd, process.device(), extent)) return 1;
  const DeviceAddress at = process.map(extent);
  if (!process.write(at, 111) || !notify(socket_fd)) return 2;
  if (!wait_for_notification(socket_fd)) return 3;
  return process.read(at + 64) == 222 ? 0 : 4;
}

TEST_F(SharingTest, SharesExtentByDescriptor) {
  ChildProcess child(export_by_fd);
  DeviceProcess process;
  Result<ExtentId> extent = receive_extent(child.socket_fd(), process.device());
  ASSERT_TRUE(extent.ok()) << extent.status().to_string();
  const DeviceAddress at = process.map(*extent);
  ASSERT_TRUE(wait_for_notification(child.socket_fd()));
  EXPECT_EQ(process.read(at), 111u);
  ASSERT_TRUE(process.write(at + 64, 222));
  ASSERT_TRUE(notify(child.socket_fd()));
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(process.device().memory_stats()->free_bytes, kGiB)
      << "an import uses no device capacity";
}

TEST_F(SharingTest, ImporterSurvivesKilledExporter) {
  ChildProcess child(export_by_fd);
  DeviceProcess process;
  Result<ExtentId> extent = receive_extent(child.socket_fd(), process.device());
  ASSERT_TRUE(extent.ok()) << extent.status().to_string();
  ASSERT_TRUE(wait_for_notification(child.socket_fd()));
  child.kill();
  const DeviceAddress at = process.map(*extent);
  EXPECT_EQ(process.read(at), 111u);
  EXPECT_TRUE(process.write(at, 333));
  EXPECT_EQ(process.read(at), 333u);
  process.unmap(at);
}

TEST_F(SharingTest, ExporterSurvivesKilledImporter) {
  ChildProcess child([](int socket_fd) {
    DeviceProcess importer;
    Result<ExtentId> extent = receive_extent(socket_fd, importer.device());
    if (!extent.ok()) return 1;
    const DeviceAddress at = importer.map(*extent);
    if (!importer.write(at, 444) || !notify(socket_fd)) return 2;
    return wait_for_notification(socket_fd) ? 0 : 3;
  });
  DeviceProcess process;
  const ExtentId extent = *process.device().create(kExtentBytes, {.can_export_fd = true});
  ASSERT_TRUE(send_extent(child.socket_fd(), process.device(), extent));
  ASSERT_TRUE(wait_for_notification(child.socket_fd()));
  child.kill();
  const DeviceAddress at = process.map(extent);
  EXPECT_EQ(process.read(at), 444u);
  EXPECT_EQ(process.device().memory_stats()->free_bytes, kGiB - kExtentBytes);
  process.unmap(at);
  EXPECT_EQ(process.device().memory_stats()->free_bytes, kGiB);
}

TEST_F(SharingTest, FabricHandleIsValidWhileExporterLives) {
  ChildProcess child([](int socket_fd) {
    DeviceProcess exporter;
    const ExtentId extent = *exporter.device().create(kExtentBytes, {.can_export_fabric = true});
    Result<FabricHandle> handle = exporter.device().export_fabric(extent);
    if (!handle.ok() || !exporter.write(exporter.map(extent), 555)) return 1;
    if (!send_handle(socket_fd, *handle)) return 2;
    return wait_for_notification(socket_fd) ? 0 : 3;
  });
  DeviceProcess process;
  const FabricHandle handle = receive_handle(child.socket_fd());
  const Status wrong_size =
      process.device().import_fabric(handle, kExtentBytes + 2 * kMiB).status();
  EXPECT_EQ(wrong_size.kind(), StatusKind::kInvalidArgument) << wrong_size.to_string();
  Result<ExtentId> extent = process.device().import_fabric(handle, kExtentBytes);
  ASSERT_TRUE(extent.ok()) << extent.status().to_string();
  const DeviceAddress at = process.map(*extent);
  EXPECT_EQ(process.read(at), 555u);

  child.kill();
  EXPECT_EQ(process.read(at), 555u);
  const Status import_status = process.device().import_fabric(handle, kExtentBytes).status();
  EXPECT_EQ(import_status.kind(), StatusKind::kDeviceFault) << import_status.to_string();
  EXPECT_NE(import_status.message().find("cannot import memory from process"), std::string::npos)
      << import_status.to_string();
}

TEST_F(SharingTest, RejectsFabricHandleOfReleasedExtent) {
  ChildProcess child([](int socket_fd) {
    DeviceProcess exporter;
    const ExtentId extent = *exporter.device().create(kExtentBytes, {.can_export_fabric = true});
    Result<FabricHandle> handle = exporter.device().export_fabric(extent);
    if (!handle.ok() || !exporter.device().release(extent).ok()) return 1;
    if (!send_handle(socket_fd, *handle)) return 2;
    return wait_for_notification(socket_fd) ? 0 : 3;
  });
  DeviceProcess process;
  const FabricHandle handle = receive_handle(child.socket_fd());
  const Status import_status = process.device().import_fabric(handle, kExtentBytes).status();
  EXPECT_EQ(import_status.kind(), StatusKind::kDeviceFault);
  EXPECT_NE(import_status.message().find("released"), std::string::npos)
      << import_status.to_string();
  ASSERT_TRUE(notify(child.socket_fd()));
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(SharingTest, SharesPlainAllocation) {
  ChildProcess child([](int socket_fd) {
    DeviceProcess owner;
    const DeviceAddress at = *owner.device().allocate(kMiB);
    Result<AllocationHandle> handle = owner.device().share_allocation(at);
    if (!handle.ok() || !owner.write(at, 666) || !send_handle(socket_fd, *handle)) return 1;
    if (!wait_for_notification(socket_fd) || owner.read(at) != 777 || !notify(socket_fd)) return 2;
    return wait_for_notification(socket_fd) ? 0 : 3;
  });
  DeviceProcess process;
  const AllocationHandle handle = receive_handle(child.socket_fd());
  Result<DeviceAddress> at = process.device().open_allocation(handle);
  ASSERT_TRUE(at.ok()) << at.status().to_string();
  EXPECT_EQ(process.read(*at), 666u);
  ASSERT_TRUE(process.write(*at, 777));
  ASSERT_TRUE(notify(child.socket_fd()));
  ASSERT_TRUE(wait_for_notification(child.socket_fd())) << "the owner did not see the write";
  child.kill();
  EXPECT_EQ(process.read(*at), 777u) << "an open allocation outlives its owner";
  EXPECT_TRUE(process.device().close_allocation(*at).ok());
  EXPECT_EQ(process.device().close_allocation(*at).kind(), StatusKind::kInvalidArgument);
}

TEST_F(SharingTest, DeviceIdentityIsEqualInEveryProcess) {
  ChildProcess child([](int socket_fd) {
    DeviceProcess other;
    return send_message(socket_fd, other.device().properties().uuid, -1, kTestTimeout).ok() ? 0 : 1;
  });
  DeviceProcess process;
  std::array<uint8_t, 16> uuid{};
  ASSERT_TRUE(receive_message(child.socket_fd(), uuid, kTestTimeout).ok());
  EXPECT_EQ(uuid, process.device().properties().uuid);
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace ashlar::sim
