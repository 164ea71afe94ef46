// SPDX-License-Identifier: Apache-2.0
//
// Allocator blocks shared between processes: contents, lifetimes, and cleanup when either side is
// killed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ashlar/allocator.h"
#include "ashlar/sim.h"
#include "base/fd_passing.h"
#include "base/units.h"
#include "contract/waiting.h"
#include "mp/child_process.h"
#include "share/protocol.h"
#include "share/share_format.h"
#include "unit/share/share_sources.h"

namespace ashlar {
namespace {

using contract::eventually;

// One process's machine and allocator.
class SimProcess {
 public:
  explicit SimProcess(ShareSource source) {
    sim::Options options;
    options.capacity_bytes = kGiB;
    machine_ = *sim::Machine::try_create(options);
    allocator_ = std::make_unique<Allocator>(device(), options_of(source));
  }
  Device& device() { return machine_->device(DeviceIndex(0)); }
  Allocator& allocator() { return *allocator_; }
  void end_allocator() { allocator_.reset(); }
  size_t used_bytes() {
    const DeviceMemoryStats use = *device().memory_stats();
    return use.total_bytes - use.free_bytes;
  }
  int64_t active_bytes() { return allocator_->stats().active_bytes.all.current; }
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

 private:
  std::unique_ptr<sim::Machine> machine_;
  std::unique_ptr<Allocator> allocator_;
};

std::set<std::string> share_sockets() {
  std::set<std::string> found;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const size_t name = line.find("@ashlar-share-");
    if (name != std::string::npos) found.insert(line.substr(name));
  }
  return found;
}

class SharedBlocksTest : public ::testing::TestWithParam<ShareSource> {
 protected:
  void TearDown() override { EXPECT_EQ(share_sockets(), before_); }
  const std::set<std::string> before_ = share_sockets();
};

INSTANTIATE_TEST_SUITE_P(Sources, SharedBlocksTest, all_share_sources(),
                         ::testing::PrintToStringParamName());

// Shares a block that contains 111 at its start and 112 at its end. Frees the buffer and ends the
// share on the first notification, and exits on the second.
int export_sim_block(int socket_fd, ShareSource source) {
  SimProcess process(source);
  Buffer front = process.allocator().allocate(3 * kMiB);
  Buffer buffer = process.allocator().allocate(kSharedBlockBytes);
  const DeviceAddress address = buffer.address();
  if (!process.write(address, 111) || !process.write(address + (kSharedBlockBytes - 4), 112))
    return 1;
  Share share = process.allocator().sharing().share(buffer);
  if (!send_handle(socket_fd, share.handle()) || !wait_for_notification(socket_fd)) return 2;
  if (process.read(address + 64) != 222) return 3;
  buffer.reset();
  share.reset();
  // The block is not reused while the importer has it open.
  if (process.allocator().allocate(kSharedBlockBytes).address() == address) return 4;
  if (!notify(socket_fd) || !wait_for_notification(socket_fd)) return 5;
  // The importer has closed the block.
  const bool is_free_again =
      eventually([&] { return process.active_bytes() == static_cast<int64_t>(3 * kMiB); });
  if (!is_free_again) return 6;
  front.reset();
  process.allocator().trim();
  return process.used_bytes() == 0 ? 0 : 7;
}

TEST_P(SharedBlocksTest, SharesBlockAndReusesItAfterImporterCloses) {
  ChildProcess child([](int socket_fd) { return export_sim_block(socket_fd, GetParam()); });
  SimProcess process(GetParam());
  const std::string handle = receive_handle(child.socket_fd());
  SharedBuffer seen = process.allocator().sharing().open(handle);
  EXPECT_EQ(seen.bytes(), kSharedBlockBytes);
  EXPECT_EQ(process.read(seen.address()), 111U);
  EXPECT_EQ(process.read(seen.address() + (kSharedBlockBytes - 4)), 112U);
  {
    const SharedBuffer again = process.allocator().sharing().open(handle);
    EXPECT_EQ(again.address(), seen.address()) << "one handle refers to one mapping";
  }
  ASSERT_TRUE(process.write(seen.address() + 64, 222));
  ASSERT_TRUE(notify(child.socket_fd()));
  ASSERT_TRUE(wait_for_notification(child.socket_fd()));
  EXPECT_TRUE(seen.is_exporter_alive());
  EXPECT_EQ(process.read(seen.address()), 111U)
      << "the importer keeps a block that its owner freed";
  EXPECT_THROW((void)SimProcess(GetParam()).allocator().sharing().open(handle), DeviceError);
  seen.reset();
  ASSERT_TRUE(notify(child.socket_fd()));
  EXPECT_EQ(child.wait(), 0);
}

TEST_P(SharedBlocksTest, FreesBlockWhenImporterIsKilled) {
  const ShareSource source = GetParam();
  ChildProcess child([source](int socket_fd) {
    SimProcess importer(source);
    const SharedBuffer seen = importer.allocator().sharing().open(receive_handle(socket_fd));
    if (importer.read(seen.address()) != 555 || !notify(socket_fd)) return 1;
    return wait_for_notification(socket_fd) ? 2 : 3;  // the child is killed before it is notified
  });
  SimProcess process(source);
  Buffer buffer = process.allocator().allocate(kSharedBlockBytes);
  const DeviceAddress address = buffer.address();
  ASSERT_TRUE(process.write(address, 555));
  {
    const Share share = process.allocator().sharing().share(buffer);
    ASSERT_TRUE(send_handle(child.socket_fd(), share.handle()));
    ASSERT_TRUE(wait_for_notification(child.socket_fd()));
  }
  buffer.reset();
  EXPECT_GT(process.active_bytes(), 0);
  EXPECT_NE(process.allocator().allocate(kSharedBlockBytes).address(), address);
  child.kill();
  EXPECT_TRUE(eventually([&] { return process.active_bytes() == 0; }));
  process.allocator().trim();
  EXPECT_EQ(process.used_bytes(), 0U) << "memory is not fully released";
}

TEST_P(SharedBlocksTest, ImporterKeepsBlockWhenExporterIsKilled) {
  ChildProcess child([](int socket_fd) { return export_sim_block(socket_fd, GetParam()); });
  SimProcess process(GetParam());
  const std::string handle = receive_handle(child.socket_fd());
  SharedBuffer seen = process.allocator().sharing().open(handle);
  child.kill();
  EXPECT_TRUE(eventually([&] { return !seen.is_exporter_alive(); }));
  EXPECT_EQ(process.read(seen.address()), 111U);
  EXPECT_EQ(process.read(seen.address() + (kSharedBlockBytes - 4)), 112U);
  EXPECT_TRUE(process.write(seen.address(), 333));
  EXPECT_EQ(process.allocator().sharing().open(handle).address(), seen.address())
      << "an open block can be opened again without its exporter";
  seen.reset();
  process.allocator().trim();
  EXPECT_EQ(process.used_bytes(), 0U);
  EXPECT_THROW((void)process.allocator().sharing().open(handle), DeviceError);
}

// This process opens and closes the exporter's block in a loop, and kills the exporter between two
// iterations.
TEST_P(SharedBlocksTest, ReportsErrorWhenExporterIsKilledDuringImport) {
  for (int round = 0; round < 5; ++round) {
    ChildProcess child([](int socket_fd) { return export_sim_block(socket_fd, GetParam()); });
    SimProcess process(GetParam());
    const std::string handle = receive_handle(child.socket_fd());
    bool is_killed = false;
    for (int i = 0; i < 1000; ++i) {
      try {
        (void)process.allocator().sharing().open(handle);
      } catch (const DeviceError&) {
        EXPECT_TRUE(is_killed);
        break;
      }
      if (i == 3 + round) {
        child.kill();
        is_killed = true;
      }
    }
    process.allocator().trim();
    EXPECT_EQ(process.used_bytes(), 0U);
    process.end_allocator();
  }
}

TEST_P(SharedBlocksTest, ReleasesLeasesOfImportersKilledWhileOpening) {
  const ShareSource source = GetParam();
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(std::make_unique<ChildProcess>([source](int socket_fd) {
      const std::string handle = receive_handle(socket_fd);
      SimProcess importer(source);
      for (;;) {
        const SharedBuffer seen = importer.allocator().sharing().open(handle);
        if (!notify(socket_fd)) return 1;
      }
    }));
  }
  SimProcess process(source);
  Buffer buffer = process.allocator().allocate(kSharedBlockBytes);
  Share share = process.allocator().sharing().share(buffer);
  for (const auto& child : children) ASSERT_TRUE(send_handle(child->socket_fd(), share.handle()));
  for (size_t i = 0; i < children.size(); ++i) {
    // Each importer is killed one notification later than the previous importer.
    for (size_t count = 0; count <= i; ++count)
      ASSERT_TRUE(wait_for_notification(children[i]->socket_fd()));
    children[i]->kill();
  }
  buffer.reset();
  share.reset();
  EXPECT_TRUE(eventually([&] { return process.active_bytes() == 0; }));
  process.allocator().trim();
  EXPECT_EQ(process.used_bytes(), 0U);
}

constexpr uid_t kNobodyUid = 65534;
constexpr int kNotAllowed = 77;

// The exporter closes the connection without a response to a well-formed request of another user.
TEST_P(SharedBlocksTest, IgnoresRequestsFromOtherUsers) {
  ChildProcess child([](int socket_fd) {
    const Result<ShareHandle> handle = parse_share_handle(receive_handle(socket_fd));
    if (!handle.ok()) return 1;
    if (::setuid(kNobodyUid) != 0) return kNotAllowed;
    const Result<UniqueFd> caller = connect_abstract(socket_name(handle->exporter), kTestTimeout);
    if (!caller.ok()) return 2;
    ShareRequest question;
    question.exporter = handle->exporter;
    question.share_id = handle->share_id;
    (void)send_message(caller->get(), bytes_of(question), -1, kTestTimeout).ok();
    ShareResponse response;
    const Result<ReceivedDescriptors> message =
        receive_descriptors(caller->get(), bytes_of(response), kMaxFdsPerResponse, kTestTimeout);
    return message.ok() && message->bytes > 0 ? 3 : 0;
  });
  SimProcess process(GetParam());
  const Buffer buffer = process.allocator().allocate(kSharedBlockBytes);
  const Share share = process.allocator().sharing().share(buffer);
  ASSERT_TRUE(send_handle(child.socket_fd(), share.handle()));
  const int answer = child.wait();
  if (answer == kNotAllowed) GTEST_SKIP() << "needs root to switch users";
  EXPECT_EQ(answer, 0);
}

TEST_P(SharedBlocksTest, RefusesToOpenBlocksOfOtherUsers) {
  ChildProcess child([](int socket_fd) {
    return ::setuid(kNobodyUid) != 0 ? kNotAllowed : export_sim_block(socket_fd, GetParam());
  });
  SimProcess process(GetParam());
  const std::string handle = receive_handle(child.socket_fd());
  if (handle.empty()) GTEST_SKIP() << "needs root to switch users";
  EXPECT_THROW((void)process.allocator().sharing().open(handle), InvalidArgument);
}

}  // namespace
}  // namespace ashlar
