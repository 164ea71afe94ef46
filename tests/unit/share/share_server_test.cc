// SPDX-License-Identifier: Apache-2.0
//
// Tests of the exporter: shares, leases, and resistance to misbehaving importers.
#include "share/share_server.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>

#include "base/fd_passing.h"
#include "engine/factory/make_engine.h"
#include "share/lease.h"
#include "share_fixture.h"

namespace ashlar {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr milliseconds kTimeout{30000};

size_t open_fd_count() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

// An engine on a simulated machine, and its server.
class ShareServerFixture : public ::testing::TestWithParam<ShareSource> {
 protected:
  void start(const ShareServer::Limits& limits = {}) { start_with(options_of(GetParam()), limits); }
  void start_with(const AllocatorOptions& options, const ShareServer::Limits& limits = {}) {
    sim::Options machine_options;
    machine_options.capacity_bytes = 2 * kGiB;
    machine_ = *sim::Machine::try_create(machine_options);
    engine_ = *make_engine(device(), options);
    server_ = std::make_unique<ShareServer>(*engine_, limits);
  }
  Device& device() { return machine_->device(DeviceIndex(0)); }
  Block* allocate(size_t bytes) { return *engine_->allocate({bytes, kDefaultStream}); }
  std::string share(Block* block) {
    const Result<std::string> handle = server_->share(block);
    EXPECT_TRUE(handle.ok()) << handle.status().to_string();
    return handle.ok() ? *handle : std::string();
  }
  static Lease connect(const std::string& handle) {
    return *Lease::connect(*parse_share_handle(handle), kTimeout);
  }
  // Opens a raw connection, for requests that a Lease would not send.
  static UniqueFd call(const std::string& handle) {
    return *connect_abstract(socket_name(parse_share_handle(handle)->exporter), kTimeout);
  }
  static bool is_disconnected(const UniqueFd& connection) {
    pollfd waiting{connection.get(), POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(kTimeout.count())) <= 0) return false;
    uint8_t byte = 0;
    return ::recv(connection.get(), &byte, 1, MSG_DONTWAIT) <= 0;
  }
  bool is_free_again() {
    return eventually([&] { return engine_->stats().active.all.current == 0; });
  }

  std::unique_ptr<sim::Machine> machine_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<ShareServer> server_;
};

class ShareServerTest : public ShareServerFixture {};
INSTANTIATE_TEST_SUITE_P(Sources, ShareServerTest, all_share_sources(),
                         ::testing::PrintToStringParamName());

// The fixture for tests of granules, which plain memory does not have.
class ExtentsServerTest : public ShareServerFixture {};
INSTANTIATE_TEST_SUITE_P(Sources, ExtentsServerTest,
                         ::testing::Values(ShareSource::kExpandable, ShareSource::kPaged),
                         ::testing::PrintToStringParamName());

TEST_P(ExtentsServerTest, HandleHasDeviceExporterAndBlock) {
  start();
  (void)allocate(15 * kMiB);
  Block* block = allocate(20 * kMiB + 5);
  const ShareHandle handle = *parse_share_handle(share(block));
  EXPECT_EQ(handle.kind, ShareHandle::Kind::kExtents);
  EXPECT_EQ(handle.device, device().properties().uuid);
  EXPECT_EQ(handle.exporter_pid, static_cast<uint32_t>(::getpid()));
  EXPECT_TRUE(server_->is_own(handle.exporter));
  EXPECT_FALSE(server_->is_own(ExporterToken{}));
  EXPECT_EQ(handle.offset, 15 * kMiB);
  EXPECT_EQ(handle.bytes, 20 * kMiB + 5);
  EXPECT_EQ(handle.granule_bytes, 20 * kMiB);
  EXPECT_EQ(handle.granule_count, 2U) << "only the granules that cover the block";
  server_->end_share(block);
}

TEST_P(ShareServerTest, SharingTwiceNeedsTwoEnds) {
  start();
  Block* block = allocate(kMiB);
  const std::string handle = share(block);
  EXPECT_EQ(share(block), handle);
  engine_->free_quietly(block);
  server_->end_share(block);
  EXPECT_EQ(engine_->stats().active.all.current, 1) << "one of two shares is left";
  server_->end_share(block);
  EXPECT_EQ(engine_->stats().active.all.current, 0);
}

TEST_P(ShareServerTest, NewBlockAtSameAddressGetsNewHandle) {
  start();
  Block* block = allocate(kMiB);
  const DeviceAddress address = block->address;
  const std::string handle = share(block);
  server_->end_share(block);
  engine_->free_quietly(block);
  Block* next = allocate(kMiB);
  ASSERT_EQ(next->address, address);
  EXPECT_NE(share(next), handle);
  EXPECT_FALSE(connect(handle).request(0).ok());
  server_->end_share(next);
}

TEST_P(ShareServerTest, LeaseKeepsBlockUntilConnectionCloses) {
  start();
  Block* block = allocate(kMiB);
  const std::string handle = share(block);
  {
    Lease lease = connect(handle);
    ASSERT_TRUE(lease.request(0).ok());
    EXPECT_TRUE(lease.is_exporter_alive());
    server_->end_share(block);
    engine_->free_quietly(block);
    EXPECT_EQ(engine_->stats().active.all.current, 1);
    const Status request_status = connect(handle).request(0).status();
    EXPECT_EQ(request_status.kind(), StatusKind::kDeviceFault);
    EXPECT_THAT(request_status.message(), HasSubstr("it has ended the share"));
  }
  EXPECT_TRUE(is_free_again());
}

TEST_P(ShareServerTest, SharingLeasedBlockReturnsSameHandle) {
  start();
  Block* block = allocate(kMiB);
  const std::string handle = share(block);
  Lease lease = connect(handle);
  ASSERT_TRUE(lease.request(0).ok());
  server_->end_share(block);
  EXPECT_EQ(share(block), handle);
  EXPECT_TRUE(connect(handle).request(0).ok());
  server_->end_share(block);
}

TEST_P(ExtentsServerTest, SendsManyGranulesInBatches) {
  start();
  Block* block = allocate(70 * 20 * kMiB);
  const std::string handle = share(block);
  Lease lease = connect(handle);
  const size_t before = open_fd_count();
  size_t count = 0;
  while (count < 70) {
    Result<std::vector<UniqueFd>> fds = lease.request(count);
    ASSERT_TRUE(fds.ok()) << fds.status().to_string();
    ASSERT_LE(fds->size(), kMaxFdsPerResponse);
    ASSERT_FALSE(fds->empty());
    for (const UniqueFd& fd : *fds) EXPECT_TRUE(device().import_fd(fd.get(), 20 * kMiB).ok());
    count += fds->size();
  }
  EXPECT_EQ(count, 70U);
  // The client's copies are already closed; the server closes its own copies after sending.
  EXPECT_TRUE(eventually([&] { return open_fd_count() <= before + 1; }));
  EXPECT_FALSE(lease.request(70).ok()) << "there is no granule 70";
  server_->end_share(block);
}

TEST_P(ExtentsServerTest, RejectsUnshareableMemoryWithAdvice) {
  AllocatorOptions options = options_of(GetParam());
  options.shareable_expandable_segments = false;
  start_with(options);
  Block* block = allocate(kMiB);
  const Status refused = server_->share(block).status();
  EXPECT_EQ(refused.kind(), StatusKind::kUnsupported);
  EXPECT_THAT(refused.message(), HasSubstr("expandable_segments_ipc:True"));
  engine_->free_quietly(block);
  EXPECT_EQ(engine_->stats().active.all.current, 0) << "a failed share must not pin the block";
}

TEST_P(ExtentsServerTest, ReportsExporterDeviceErrors) {
  start();
  Block* block = allocate(kMiB);
  const std::string handle = share(block);
  machine_->inject({.call = DeviceCall::kExportFd,
                    .status = Status::device_fault("cuMemExport", 7, "no export today")});
  Lease lease = connect(handle);
  const Status refused = lease.request(0).status();
  EXPECT_EQ(refused.kind(), StatusKind::kDeviceFault);
  EXPECT_THAT(refused.message(), HasSubstr("no export today"));
  server_->end_share(block);
  engine_->free_quietly(block);
  EXPECT_TRUE(is_free_again()) << "a refused caller has no lease";
}

// --- misbehaving importers

TEST_P(ShareServerTest, ClosesSilentConnections) {
  start({.request_timeout = milliseconds(20), .max_connections = 4});
  const std::string handle = share(allocate(kMiB));
  EXPECT_TRUE(is_disconnected(call(handle)));
}

TEST_P(ShareServerTest, ClosesConnectionsWithMalformedRequests) {
  start();
  Block* block = allocate(kMiB);
  const std::string handle = share(block);
  for (size_t bytes : {size_t{1}, sizeof(ShareRequest) - 1, sizeof(ShareRequest), size_t{4096}}) {
    const UniqueFd caller = call(handle);
    const std::vector<uint8_t> garbage(bytes, 0xa5);
    ASSERT_TRUE(send_message(caller.get(), garbage, -1, kTimeout).ok());
    ShareResponse answer;
    const Result<ReceivedMessage> said = receive_message(caller.get(), bytes_of(answer), kTimeout);
    EXPECT_TRUE(!said.ok() || answer.code != ShareCode::kGranted);
    EXPECT_TRUE(is_disconnected(caller)) << bytes;
  }
  EXPECT_TRUE(connect(handle).request(0).ok());
  server_->end_share(block);
}

TEST_P(ExtentsServerTest, RejectsWrongTokenShareOrGranule) {
  start();
  Block* block = allocate(kMiB);
  const ShareHandle right = *parse_share_handle(share(block));
  const auto response_code = [&](ShareRequest request) {
    const UniqueFd caller = *connect_abstract(socket_name(right.exporter), kTimeout);
    EXPECT_TRUE(send_message(caller.get(), bytes_of(request), -1, kTimeout).ok());
    ShareResponse answer;
    EXPECT_TRUE(receive_message(caller.get(), bytes_of(answer), kTimeout).ok());
    return answer.code;
  };
  ShareRequest good;
  good.exporter = right.exporter;
  good.share_id = right.share_id;
  EXPECT_EQ(response_code(good), ShareCode::kGranted);
  ShareRequest request = good;
  request.exporter[3] ^= 1;
  EXPECT_EQ(response_code(request), ShareCode::kNotUnderstood);
  request = good;
  request.share_id += 1;
  EXPECT_EQ(response_code(request), ShareCode::kNoSuchShare);
  request = good;
  request.first_granule = 1;
  EXPECT_EQ(response_code(request), ShareCode::kNotUnderstood);
  request.first_granule = UINT64_MAX;
  EXPECT_EQ(response_code(request), ShareCode::kNotUnderstood);
  request = good;
  request.version = 99;
  EXPECT_EQ(response_code(request), ShareCode::kNotUnderstood);
  server_->end_share(block);
  engine_->free_quietly(block);
  EXPECT_TRUE(is_free_again());
}

TEST_P(ExtentsServerTest, LeaseCoversOneShare) {
  start();
  Block* first = allocate(kMiB);
  Block* second = allocate(kMiB);
  const ShareHandle handle = *parse_share_handle(share(first));
  const ShareHandle other = *parse_share_handle(share(second));
  const UniqueFd caller = *connect_abstract(socket_name(handle.exporter), kTimeout);
  ShareRequest request;
  request.exporter = handle.exporter;
  ShareResponse answer;
  for (uint64_t id : {handle.share_id, other.share_id}) {
    request.share_id = id;
    ASSERT_TRUE(send_message(caller.get(), bytes_of(request), -1, kTimeout).ok());
    ASSERT_TRUE(receive_message(caller.get(), bytes_of(answer), kTimeout).ok());
  }
  EXPECT_EQ(answer.code, ShareCode::kNotUnderstood);
  EXPECT_TRUE(is_disconnected(caller));
  server_->end_share(first);
  server_->end_share(second);
}

TEST_P(ExtentsServerTest, UnreadResponsesDoNotBlockOthers) {
  start();
  Block* block = allocate(kMiB);
  const std::string handle = share(block);
  const ShareHandle parsed = *parse_share_handle(handle);
  const UniqueFd unread = call(handle);
  ShareRequest request;
  request.exporter = parsed.exporter;
  request.share_id = parsed.share_id;
  // Sends requests without reading the responses, until the server closes the connection.
  while (send_message(unread.get(), bytes_of(request), -1, milliseconds(1000)).ok()) {
  }
  EXPECT_TRUE(connect(handle).request(0).ok());
  server_->end_share(block);
  engine_->free_quietly(block);
  EXPECT_TRUE(is_free_again());
}

TEST_P(ShareServerTest, RejectsConnectionsAboveTheLimit) {
  start({.request_timeout = kTimeout, .max_connections = 1});
  Block* block = allocate(kMiB);
  const std::string handle = share(block);
  {
    Lease lease = connect(handle);
    ASSERT_TRUE(lease.request(0).ok());
    ShareResponse answer;
    const UniqueFd second = call(handle);
    ASSERT_TRUE(receive_message(second.get(), bytes_of(answer), kTimeout).ok());
    EXPECT_EQ(answer.code, ShareCode::kTooMany);
  }
  EXPECT_TRUE(eventually([&] { return connect(handle).request(0).ok(); }));
  server_->end_share(block);
}

TEST_P(ShareServerTest, DestructorEndsSharesAndLeases) {
  start();
  Block* block = allocate(kMiB);
  const std::string handle = share(block);
  Lease lease = connect(handle);
  ASSERT_TRUE(lease.request(0).ok());
  engine_->free_quietly(block);
  server_.reset();
  EXPECT_EQ(engine_->stats().active.all.current, 0);
  EXPECT_FALSE(lease.is_exporter_alive());
  const Status refused = Lease::connect(*parse_share_handle(handle), kTimeout).status();
  EXPECT_EQ(refused.kind(), StatusKind::kDeviceFault);
  EXPECT_THAT(refused.message(), HasSubstr("the exporter (process"));
}

}  // namespace
}  // namespace ashlar
