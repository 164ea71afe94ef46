// SPDX-License-Identifier: Apache-2.0
//
// Tests the UCX transport connected to itself: operations, argument checks, teardown.
#include "ashlar/ucx_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <numeric>

#include "base/text.h"
#include "symm/transports/transport.h"
#include "unit/symm/deadlines.h"
#include "unit/symm/transports/ucx/listening_addresses.h"

namespace ashlar::symm {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

UcxOptions over_tcp_and_self() {
  UcxOptions options;
  options.transports = "tcp,self";
  return options;
}

class UcxTransportTest : public ::testing::Test {
 protected:
  alignas(8) std::array<std::byte, 256> memory_{};
  std::shared_ptr<Failure> failure_ = std::make_shared<Failure>();
  std::shared_ptr<Transport> transport_ = *try_open_ucx_transport(over_tcp_and_self());
  std::unique_ptr<Region> region_ = *transport_->share(memory_);
  std::unique_ptr<Endpoint> endpoint_ =
      *transport_->connect(*transport_->address(), {5, "single", failure_}, long_deadline());
  std::unique_ptr<RemoteRegion> remote_ = *endpoint_->open(region_->key());
};

TEST_F(UcxTransportTest, ReachesItself) {
  const std::array<std::byte, 3> sent{std::byte{1}, std::byte{2}, std::byte{3}};
  ASSERT_TRUE(remote_->put(100, sent, long_deadline()).ok());
  ASSERT_TRUE(transport_->quiet(long_deadline()).ok());
  EXPECT_EQ(memory_[102], std::byte{3});
  std::array<std::byte, 4> got{};
  ASSERT_TRUE(remote_->get(100, got, long_deadline()).ok());
  EXPECT_EQ(got[2], std::byte{3});
  EXPECT_EQ(got[3], std::byte{0});
}

TEST_F(UcxTransportTest, TransfersMoreThanFitsInFlight) {
  std::vector<uint32_t> memory(size_t{3} << 20);  // 12 MiB
  const std::unique_ptr<Region> region =
      *transport_->share(std::as_writable_bytes(std::span(memory)));
  const std::unique_ptr<RemoteRegion> remote = *endpoint_->open(region->key());
  std::vector<uint32_t> sent(memory.size());
  std::iota(sent.begin(), sent.end(), 7U);
  ASSERT_TRUE(remote->put(0, std::as_bytes(std::span(sent)), long_deadline()).ok());
  ASSERT_TRUE(transport_->quiet(long_deadline()).ok());
  EXPECT_TRUE(memory == sent);
  std::vector<uint32_t> got(memory.size());
  ASSERT_TRUE(remote->get(0, std::as_writable_bytes(std::span(got)), long_deadline()).ok());
  EXPECT_TRUE(got == sent);
}

TEST_F(UcxTransportTest, SupportsAllAtomics) {
  const auto fetch = [&](AtomicKind kind, uint64_t operand, uint64_t expected = 0) {
    return *remote_->fetch({kind, WordBytes::k8, 8, operand, expected}, long_deadline());
  };
  EXPECT_EQ(fetch(AtomicKind::kSwap, 0x1'0000'00f0), 0);
  EXPECT_EQ(fetch(AtomicKind::kAdd, 0xf), 0x1'0000'00f0);
  EXPECT_EQ(fetch(AtomicKind::kAnd, 0x1'0000'0ff0), 0x1'0000'00ff);
  EXPECT_EQ(fetch(AtomicKind::kOr, 0xf), 0x1'0000'00f0);
  EXPECT_EQ(fetch(AtomicKind::kXor, 0xff), 0x1'0000'00ff);
  EXPECT_EQ(fetch(AtomicKind::kCompareAndSwap, 7, 6), 0x1'0000'0000);
  EXPECT_EQ(fetch(AtomicKind::kCompareAndSwap, 7, 0x1'0000'0000), 0x1'0000'0000);
  EXPECT_EQ(fetch(AtomicKind::kAdd, 0), 7);
}

TEST_F(UcxTransportTest, FourByteAtomicsChangeFourBytes) {
  memory_.fill(std::byte{0xff});
  const AtomicOp one{AtomicKind::kAdd, WordBytes::k4, 4, 1, 0};
  EXPECT_EQ(*remote_->fetch(one, long_deadline()), 0xffff'ffff);
  EXPECT_EQ(*remote_->fetch(one, long_deadline()), 0);
  EXPECT_EQ(memory_[3], std::byte{0xff});
  EXPECT_EQ(memory_[8], std::byte{0xff});
}

TEST_F(UcxTransportTest, RejectsCallsOutsideTheRegion) {
  std::array<std::byte, 16> bytes{};
  EXPECT_EQ(remote_->bytes(), memory_.size());
  for (uint64_t offset : {uint64_t{241}, uint64_t{257}, UINT64_MAX, UINT64_MAX - 7}) {
    EXPECT_EQ(remote_->put(offset, bytes, long_deadline()).kind(), StatusKind::kInvalidArgument)
        << offset;
    EXPECT_EQ(remote_->get(offset, bytes, long_deadline()).kind(), StatusKind::kInvalidArgument)
        << offset;
  }
  const auto add_at = [&](uint64_t offset) {
    const AtomicOp call{AtomicKind::kAdd, WordBytes::k8, offset, 1, 0};
    EXPECT_EQ(remote_->post(call, long_deadline()).kind(),
              remote_->fetch(call, long_deadline()).status().kind());
    return remote_->post(call, long_deadline()).to_string();
  };
  EXPECT_THAT(add_at(4), HasSubstr("not aligned"));
  EXPECT_THAT(add_at(256), HasSubstr("8 bytes at offset 256: the region has 256"));
  EXPECT_THAT(add_at(UINT64_MAX - 7), HasSubstr("the region has 256"));
  EXPECT_EQ(remote_->post({AtomicKind::kSwap, WordBytes::k8, 0, 1, 0}, long_deadline()).kind(),
            StatusKind::kInvalidArgument);
  EXPECT_TRUE(remote_->put(256, {}, long_deadline()).ok());
}

TEST_F(UcxTransportTest, ReportsRegionsThatAreNoLongerShared) {
  region_.reset();
  std::array<std::byte, 8> bytes{std::byte{1}};
  EXPECT_THAT(remote_->get(0, bytes, long_deadline()).to_string(),
              HasSubstr("invalid argument: rank 5 of group single no longer shares this region"));
  EXPECT_TRUE(remote_->put(0, bytes, long_deadline()).ok());
  EXPECT_EQ(endpoint_->quiet(long_deadline()).kind(), StatusKind::kInvalidArgument);
  EXPECT_TRUE(endpoint_->quiet(long_deadline()).ok());  // an error is reported once
  EXPECT_EQ(memory_[0], std::byte{0});
}

TEST_F(UcxTransportTest, RejectsInvalidAddressesAndKeys) {
  const RemotePeer peer{5, "single", failure_};
  for (const std::string& bytes : {std::string(), std::string(100, 'x'), region_->key()}) {
    EXPECT_EQ(transport_->connect(bytes, peer, long_deadline()).status().kind(),
              StatusKind::kFormat);
  }
  EXPECT_EQ(endpoint_->open(*transport_->address()).status().kind(), StatusKind::kFormat);
  EXPECT_EQ(transport_->share({}).status().kind(), StatusKind::kInvalidArgument);
}

TEST_F(UcxTransportTest, RejectsCallsAfterEnd) {
  const std::string address = *transport_->address();
  transport_->end();
  transport_->end();
  transport_->progress();
  const Status refused = remote_->put(0, std::span(memory_).first(1), long_deadline());
  EXPECT_EQ(refused.to_string(), "invalid argument: the UCX transport has ended");
  EXPECT_EQ(endpoint_->quiet(long_deadline()).kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(transport_->share(memory_).status().kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(endpoint_->open(region_->key()).status().kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(transport_->connect(address, {5, "single", failure_}, long_deadline()).status().kind(),
            StatusKind::kInvalidArgument);
  EXPECT_EQ(transport_->address().status().kind(), StatusKind::kInvalidArgument);
  EXPECT_FALSE(failure_->has_happened());
}

TEST_F(UcxTransportTest, FailsImmediatelyAfterTheGroupFailed) {
  failure_->report(Status::peer_lost("rank 3 died"));
  EXPECT_EQ(remote_->put(0, std::span(memory_).first(1), long_deadline()).message(), "rank 3 died");
  EXPECT_EQ(endpoint_->quiet(long_deadline()).message(), "rank 3 died");
}

TEST(UcxTransportOptionsTest, RejectsOptionsThatUcxRejects) {
  UcxOptions options;
  options.transports = "no_such_transport";
  EXPECT_EQ(try_open_ucx_transport(options).status().kind(), StatusKind::kInvalidArgument);
  options.transports = "tcp";
  options.devices = "no_such_device";
  EXPECT_EQ(try_open_ucx_transport(options).status().kind(), StatusKind::kInvalidArgument);
  options = over_tcp_and_self();
  options.busy_poll = std::chrono::microseconds(-1);
  EXPECT_THAT(try_open_ucx_transport(options).status().to_string(),
              HasSubstr("expected 0 to 1000000"));
}

TEST(UcxTransportSocketsTest, ListensOnlyAfterItsAddressWasRequested) {
  const std::shared_ptr<Transport> transport = *try_open_ucx_transport({.transports = "tcp"});
  std::array<std::byte, 64> memory{};
  const std::unique_ptr<Region> region = *transport->share(memory);
  transport->progress();
  EXPECT_THAT(listening_addresses(), IsEmpty());
  ASSERT_TRUE(transport->address().ok());
  EXPECT_THAT(listening_addresses(), Not(IsEmpty()));
  transport->end();
  EXPECT_THAT(listening_addresses(), IsEmpty());
}

TEST(UcxTransportSocketsTest, ListensOnTheChosenDeviceOnly) {
  const std::shared_ptr<Transport> transport =
      *try_open_ucx_transport({.transports = "tcp", .devices = "lo"});
  ASSERT_TRUE(transport->address().ok());
  EXPECT_THAT(listening_addresses(), AllOf(Not(IsEmpty()), Each(AnyOf("127.0.0.1", "::1"))));
}

TEST(UcxTransportSocketsTest, EndBeforeListening) {
  const std::shared_ptr<Transport> transport = *try_open_ucx_transport(over_tcp_and_self());
  transport->end();
  EXPECT_EQ(transport->address().status().to_string(),
            "invalid argument: the UCX transport has ended");
}

size_t count_fds() {
  namespace fs = std::filesystem;
  return static_cast<size_t>(
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

TEST(UcxTransportTeardownTest, LeaksNoDescriptors) {
  const auto once = [] {
    std::array<std::byte, 64> memory{};
    const std::shared_ptr<Transport> transport = *try_open_ucx_transport(over_tcp_and_self());
    const std::unique_ptr<Region> region = *transport->share(memory);
    const std::unique_ptr<Endpoint> endpoint = *transport->connect(
        *transport->address(), {0, "single", std::make_shared<Failure>()}, long_deadline());
  };
  once();  // UCX keeps some descriptors per process
  const size_t before = count_fds();
  for (int i = 0; i < 5; ++i) once();
  EXPECT_EQ(count_fds(), before);
}

}  // namespace
}  // namespace ashlar::symm
