// SPDX-License-Identifier: Apache-2.0
//
// Blocks on a vendor's device shared between real processes, and what is left when one is killed:
// over the stand-in drivers, or with ASHLAR_TEST_DEVICE=cuda on the real device. A driver does not
// survive fork, so the test itself opens no device: one child exports, another imports, and the
// test carries messages between them.
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

constexpr std::chrono::seconds kPatience{30};
constexpr size_t kBlockBytes = 50 * kMiB;

bool wants_real_device() {
  const char* wanted = std::getenv("ASHLAR_TEST_DEVICE");
  return wanted != nullptr && std::string_view(wanted) == "cuda";
}

Result<std::unique_ptr<DeviceSet>> open_under_test() {
  if (wants_real_device()) return open_cuda();
  sim::Options options;
  options.device_count = 1;
  options.capacity_bytes = kGiB;
  standin::control_of(ASHLAR_CUDA_STANDIN).restart(options, {});
  return open_cuda({.library = ASHLAR_CUDA_STANDIN});
}

// One process's own device and allocator.
class Process {
 public:
  explicit Process(ShareSource source) : devices_(*open_under_test()) {
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

bool send_handle(int socket_fd, const std::string& handle) {
  const std::vector<uint8_t> bytes(handle.begin(), handle.end());
  return send_message(socket_fd, bytes, -1, kPatience).ok();
}

std::string receive_handle(int socket_fd) {
  std::array<uint8_t, 512> bytes{};
  const Result<ReceivedMessage> got = receive_message(socket_fd, bytes, kPatience);
  if (!got.ok()) return {};
  return {bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(got->bytes)};
}

// Shares a block that holds 111 and 112, and frees it when told; then waits until nobody has it.
int export_block(int socket_fd, ShareSource source) {
  Process process(source);
  Buffer buffer = process.allocator().allocate(kBlockBytes);
  const DeviceAddress at = buffer.address();
  if (!process.write(at, 111) || !process.write(at + (kBlockBytes - 4), 112)) return 1;
  Share share = process.allocator().share(buffer);
  if (!send_handle(socket_fd, share.handle()) || !hear(socket_fd)) return 2;
  if (process.read(at + 64) != 222) return 3;
  buffer.reset();
  share.reset();
  if (process.active_bytes() == 0) return 4;  // the importer has it still
  if (process.allocator().allocate(kBlockBytes).address() == at) return 5;
  if (!tell(socket_fd)) return 6;
  return eventually([&] { return process.active_bytes() == 0; }) ? 0 : 7;
}

// Opens the block, writes 222 into it, and closes it when told; killed before that in some tests.
int import_block(int socket_fd, ShareSource source) {
  Process process(source);
  SharedBuffer seen = process.allocator().open_shared(receive_handle(socket_fd));
  if (seen.bytes() != kBlockBytes) return 11;
  if (process.read(seen.address()) != 111) return 12;
  if (process.read(seen.address() + (kBlockBytes - 4)) != 112) return 13;
  if (!process.write(seen.address() + 64, 222) || !tell(socket_fd)) return 14;
  if (!hear(socket_fd)) return 15;
  return process.read(seen.address()) == 111 ? 0 : 16;
}

class GpuSharingTest : public ::testing::TestWithParam<ShareSource> {
 protected:
  // Both run, and the importer has the block open.
  void start() {
    const ShareSource source = GetParam();
    exporter_ = std::make_unique<ChildProcess>(
        [source](int socket_fd) { return export_block(socket_fd, source); });
    importer_ = std::make_unique<ChildProcess>(
        [source](int socket_fd) { return import_block(socket_fd, source); });
    const std::string handle = receive_handle(exporter_->socket_fd());
    ASSERT_FALSE(handle.empty()) << "the exporter ended with " << exporter_->wait();
    ASSERT_TRUE(send_handle(importer_->socket_fd(), handle));
    ASSERT_TRUE(hear(importer_->socket_fd())) << "the importer ended with " << importer_->wait();
  }

  std::unique_ptr<ChildProcess> exporter_;
  std::unique_ptr<ChildProcess> importer_;
};

INSTANTIATE_TEST_SUITE_P(Sources, GpuSharingTest, all_share_sources(),
                         ::testing::PrintToStringParamName());

TEST_P(GpuSharingTest, ABlockIsOneMemoryInTwoProcessesAndReusedWhenBothAreDone) {
  ASSERT_NO_FATAL_FAILURE(start());
  ASSERT_TRUE(tell(exporter_->socket_fd()));
  ASSERT_TRUE(hear(exporter_->socket_fd())) << "the exporter ended with " << exporter_->wait();
  ASSERT_TRUE(tell(importer_->socket_fd()));
  EXPECT_EQ(importer_->wait(), 0) << "freed by its owner, and still the importer's";
  EXPECT_EQ(exporter_->wait(), 0);
}

TEST_P(GpuSharingTest, KillingTheImporterGivesTheBlockBack) {
  ASSERT_NO_FATAL_FAILURE(start());
  ASSERT_TRUE(tell(exporter_->socket_fd()));
  ASSERT_TRUE(hear(exporter_->socket_fd())) << "the exporter ended with " << exporter_->wait();
  importer_->kill();
  EXPECT_EQ(exporter_->wait(), 0);
}

// By a file descriptor. Of plain memory, a real driver says that its exporter must keep it.
TEST_P(GpuSharingTest, KillingTheExporterLeavesTheImporterWhatItHas) {
  if (!is_of_extents(GetParam()) && wants_real_device())
    GTEST_SKIP() << "plain memory goes with its exporter";
  ASSERT_NO_FATAL_FAILURE(start());
  exporter_->kill();
  ASSERT_TRUE(tell(importer_->socket_fd()));
  EXPECT_EQ(importer_->wait(), 0);
}

}  // namespace
}  // namespace ashlar
