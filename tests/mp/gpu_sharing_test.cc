// SPDX-License-Identifier: Apache-2.0
//
// GPU blocks shared between processes, including processes that are killed. Runs on the stand-in
// CUDA driver, or with ASHLAR_TEST_DEVICE=cuda on a GPU. A driver does not survive fork, so the
// test opens no device itself: one child exports, another imports, and the test relays their
// messages.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/allocator.h"
#include "ashlar/devices.h"
#include "base/fd_passing.h"
#include "base/units.h"
#include "contract/waiting.h"
#include "mp/child_process.h"
#include "standin/control.h"
#include "unit/share/share_sources.h"

namespace ashlar {
namespace {

using contract::eventually;

bool wants_real_device() {
  const char* wanted = std::getenv("ASHLAR_TEST_DEVICE");
  return wanted != nullptr && std::string_view(wanted) == "cuda";
}

Result<std::unique_ptr<DeviceSet>> open_test_devices() {
  if (wants_real_device()) return try_open_cuda();
  sim::Options options;
  options.device_count = 1;
  options.capacity_bytes = kGiB;
  standin::control_of(ASHLAR_CUDA_STANDIN).restart(options, {});
  return try_open_cuda({.library = ASHLAR_CUDA_STANDIN});
}

// One process's device and allocator.
class GpuProcess {
 public:
  explicit GpuProcess(ShareSource source) : devices_(*open_test_devices()) {
    allocator_ = std::make_unique<Allocator>(device(), options_of(source));
  }
  Device& device() { return devices_->device(DeviceIndex(0)); }
  Allocator& allocator() { return *allocator_; }
  int64_t active_bytes() { return allocator_->stats().active_bytes.all.current; }
  bool write(DeviceAddress at, uint32_t value) {
    return device().copy_to_device(at, &value, sizeof(value), kDefaultStream).ok() &&
           device().synchronize_device().ok();
  }
  uint32_t read(DeviceAddress at) {
    uint32_t value = 0;
    const bool is_read = device().copy_to_host(&value, at, sizeof(value), kDefaultStream).ok() &&
                         device().synchronize_device().ok();
    return is_read ? value : 0;
  }

 private:
  std::unique_ptr<DeviceSet> devices_;
  std::unique_ptr<Allocator> allocator_;
};

// Shares a block that contains 111 and 112. When notified, frees the block, and waits until the
// importer has closed it.
int export_gpu_block(int socket_fd, ShareSource source) {
  GpuProcess process(source);
  Buffer buffer = process.allocator().allocate(kSharedBlockBytes);
  const DeviceAddress at = buffer.address();
  if (!process.write(at, 111) || !process.write(at + (kSharedBlockBytes - 4), 112)) return 1;
  Share share = process.allocator().sharing().share(buffer);
  if (!send_handle(socket_fd, share.handle()) || !wait_for_notification(socket_fd)) return 2;
  if (process.read(at + 64) != 222) return 3;
  buffer.reset();
  share.reset();
  if (process.active_bytes() == 0) return 4;  // the importer still has the block open
  if (process.allocator().allocate(kSharedBlockBytes).address() == at) return 5;
  if (!notify(socket_fd)) return 6;
  return eventually([&] { return process.active_bytes() == 0; }) ? 0 : 7;
}

// Opens the block, writes 222 into it, and closes it when notified. Some tests kill this process
// first.
int import_block(int socket_fd, ShareSource source) {
  GpuProcess process(source);
  SharedBuffer seen = process.allocator().sharing().open(receive_handle(socket_fd));
  if (seen.bytes() != kSharedBlockBytes) return 11;
  if (process.read(seen.address()) != 111) return 12;
  if (process.read(seen.address() + (kSharedBlockBytes - 4)) != 112) return 13;
  if (!process.write(seen.address() + 64, 222) || !notify(socket_fd)) return 14;
  if (!wait_for_notification(socket_fd)) return 15;
  return process.read(seen.address()) == 111 ? 0 : 16;
}

class GpuSharingTest : public ::testing::TestWithParam<ShareSource> {
 protected:
  // Starts both processes. Returns when the importer has opened the block.
  void start() {
    const ShareSource source = GetParam();
    exporter_ = std::make_unique<ChildProcess>(
        [source](int socket_fd) { return export_gpu_block(socket_fd, source); });
    importer_ = std::make_unique<ChildProcess>(
        [source](int socket_fd) { return import_block(socket_fd, source); });
    const std::string handle = receive_handle(exporter_->socket_fd());
    ASSERT_FALSE(handle.empty()) << "the exporter exited with " << exporter_->wait();
    ASSERT_TRUE(send_handle(importer_->socket_fd(), handle));
    ASSERT_TRUE(wait_for_notification(importer_->socket_fd()))
        << "the importer exited with " << importer_->wait();
  }

  std::unique_ptr<ChildProcess> exporter_;
  std::unique_ptr<ChildProcess> importer_;
};

INSTANTIATE_TEST_SUITE_P(Sources, GpuSharingTest, all_share_sources(),
                         ::testing::PrintToStringParamName());

TEST_P(GpuSharingTest, SharesBlockAndReusesItAfterBothClose) {
  ASSERT_NO_FATAL_FAILURE(start());
  ASSERT_TRUE(notify(exporter_->socket_fd()));
  ASSERT_TRUE(wait_for_notification(exporter_->socket_fd()))
      << "the exporter exited with " << exporter_->wait();
  ASSERT_TRUE(notify(importer_->socket_fd()));
  EXPECT_EQ(importer_->wait(), 0) << "the importer keeps a block that its owner freed";
  EXPECT_EQ(exporter_->wait(), 0);
}

TEST_P(GpuSharingTest, FreesBlockWhenImporterIsKilled) {
  ASSERT_NO_FATAL_FAILURE(start());
  ASSERT_TRUE(notify(exporter_->socket_fd()));
  ASSERT_TRUE(wait_for_notification(exporter_->socket_fd()))
      << "the exporter exited with " << exporter_->wait();
  importer_->kill();
  EXPECT_EQ(exporter_->wait(), 0);
}

// The importer keeps only memory that is shared by descriptor: when the exporter exits, a CUDA
// driver frees plain memory.
TEST_P(GpuSharingTest, ImporterKeepsBlockWhenExporterIsKilled) {
  if (!uses_extents(GetParam()) && wants_real_device())
    GTEST_SKIP() << "plain memory is freed with its exporter";
  ASSERT_NO_FATAL_FAILURE(start());
  exporter_->kill();
  ASSERT_TRUE(notify(importer_->socket_fd()));
  EXPECT_EQ(importer_->wait(), 0);
}

}  // namespace
}  // namespace ashlar
