// SPDX-License-Identifier: Apache-2.0
//
// Tests connections between ranks of one process: authentication, messages and disconnects.
#include "symm/channel/channel.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/fd_passing.h"
#include "contract/waiting.h"
#include "mp/child_process.h"
#include "symm/channel/channel_message.h"
#include "symm/channel/peer_connections.h"
#include "symm/membership/failure_record.h"
#include "unit/symm/stores/store_fixtures.h"

namespace ashlar::symm {
namespace {

using contract::eventually;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

size_t open_fd_count() {
  size_t count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    (void)each;
    ++count;
  }
  return count;
}

std::span<const uint8_t> span_of(const std::string& bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

// Returns whether the peer has closed the socket without sending anything.
bool is_disconnected(int socket_fd) {
  std::array<uint8_t, 1> byte{};
  const auto got = receive_descriptors(socket_fd, byte, 0, std::chrono::seconds(10));
  return got.ok() && got->bytes == 0;
}

// Two ranks of a group, each with its own channel, as in two processes.
class TwoRanks {
 public:
  TwoRanks() {
    for (int rank = 0; rank < 2; ++rank) channels_[rank] = *Channel::open();
    for (int rank = 0; rank < 2; ++rank) {
      connections_[rank] =
          std::make_unique<PeerConnections>(*channels_[rank], options(rank), failures_[rank]);
    }
  }
  static TwoRanks connected() {
    TwoRanks ranks;
    std::thread other([&] { ranks.connect(1); });
    ranks.connect(0);
    other.join();
    return ranks;
  }
  void connect(int rank) {
    const Status linked = connections_[rank]->connect(long_deadline());
    EXPECT_TRUE(linked.ok()) << linked.to_string();
  }
  PeerConnections::Options options(int rank) const {
    PeerConnections::Options options;
    options.group = Token{7};
    options.group_name = "test";
    options.rank_info = {rank, 2};
    options.peers.resize(2);
    options.peers[1 - rank] = channels_[1 - rank]->address();
    return options;
  }
  PeerConnections& connections(int rank) { return *connections_[rank]; }
  Failure& failure(int rank) { return *failures_[rank]; }
  Channel& channel(int rank) const { return *channels_[rank]; }
  void drop_connections(int rank) { connections_[rank].reset(); }

 private:
  std::unique_ptr<Channel> channels_[2];
  std::shared_ptr<Failure> failures_[2] = {std::make_shared<Failure>(),
                                           std::make_shared<Failure>()};
  std::unique_ptr<PeerConnections> connections_[2];
};

TEST(ChannelConcurrency, DeliversDescriptorsBySequenceNumber) {
  TwoRanks ranks = TwoRanks::connected();
  const UniqueFd memory(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(memory.get(), 4096), 0);
  ASSERT_TRUE(ranks.connections(0).send(1, 3, memory.get(), long_deadline()).ok());
  ASSERT_TRUE(ranks.connections(0).send(1, 4, memory.get(), long_deadline()).ok());
  const auto got = ranks.connections(1).receive(0, 4, long_deadline());
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  EXPECT_EQ(::lseek(got->get(), 0, SEEK_END), 4096);
  EXPECT_EQ(::fcntl(got->get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  ASSERT_TRUE(ranks.connections(0).send(1, 9, -1, long_deadline()).ok());
  EXPECT_THAT(ranks.connections(1).receive(0, 5, long_deadline()).status().message(),
              HasSubstr("is ahead"));
}

TEST(ChannelConcurrency, ReportsPeerDeathOnDisconnectWithoutClosing) {
  TwoRanks ranks = TwoRanks::connected();
  ranks.drop_connections(1);
  ASSERT_TRUE(eventually([&] { return ranks.failure(0).has_happened(); }));
  EXPECT_EQ(ranks.failure(0).reason().kind(), StatusKind::kPeerLost);
  EXPECT_EQ(ranks.failure(0).reason().message(), "rank 1 of group test died");
  EXPECT_EQ(ranks.connections(0).receive(1, 0, long_deadline()).status().message(),
            "rank 1 of group test died");
}

TEST(ChannelConcurrency, IgnoresDisconnectAfterClosing) {
  TwoRanks ranks = TwoRanks::connected();
  ASSERT_TRUE(ranks.connections(0).send(1, 0, -1, long_deadline()).ok());
  ranks.connections(1).close_all({});
  ranks.drop_connections(1);
  EXPECT_TRUE(contract::consistently([&] { return !ranks.failure(0).has_happened(); }));
}

// The channel's thread, which detects that the peer has left, and this thread race to receive the
// descriptors. The test repeats the race, because one attempt rarely interleaves the threads.
TEST(ChannelConcurrency, DeliversDescriptorsOfAPeerThatHasLeft) {
  const UniqueFd memory(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(memory.get(), 4096), 0);
  for (int attempt = 0; attempt < 200; ++attempt) {
    TwoRanks ranks = TwoRanks::connected();
    for (const uint64_t sequence : {3, 4, 5}) {
      ASSERT_TRUE(ranks.connections(1).send(0, sequence, memory.get(), long_deadline()).ok());
    }
    ranks.connections(1).close_all({});
    for (const uint64_t sequence : {4, 5}) {
      const auto got = ranks.connections(0).receive(1, sequence, long_deadline());
      ASSERT_TRUE(got.ok()) << "attempt " << attempt << ": " << got.status().to_string();
      ASSERT_EQ(::lseek(got->get(), 0, SEEK_END), 4096);
    }
    ASSERT_FALSE(ranks.failure(0).has_happened());
    ASSERT_EQ(ranks.connections(0).receive(1, 6, long_deadline()).status().kind(),
              StatusKind::kPeerLost);
  }
}

TEST(ChannelConcurrency, CloseAllSendsTheReason) {
  TwoRanks ranks = TwoRanks::connected();
  ranks.connections(1).close_all(Status::peer_lost("rank 5 of group test died"));
  ranks.drop_connections(1);
  ASSERT_TRUE(eventually([&] { return ranks.failure(0).has_happened(); }));
  EXPECT_EQ(ranks.failure(0).reason().message(), "rank 5 of group test died");
}

// The channel's thread and this thread race to receive the reason. The test repeats the race,
// because one attempt rarely interleaves the threads.
TEST(ChannelConcurrency, ReceiveReturnsTheReasonOfAClosingPeer) {
  for (int attempt = 0; attempt < 200; ++attempt) {
    TwoRanks ranks = TwoRanks::connected();
    ranks.connections(1).close_all(Status::timeout("rank 1 of group test has no time"));
    const Status received = ranks.connections(0).receive(1, 0, long_deadline()).status();
    ASSERT_EQ(received.kind(), StatusKind::kTimeout) << "attempt " << attempt;
    ASSERT_EQ(received.message(), "rank 1 of group test has no time");
  }
}

// Sending to a peer that has failed returns the reason that the peer sent, not the broken
// connection.
TEST(ChannelConcurrency, SendReturnsTheReasonOfAClosingPeer) {
  for (int attempt = 0; attempt < 200; ++attempt) {
    TwoRanks ranks = TwoRanks::connected();
    ranks.connections(1).close_all(Status::timeout("rank 1 of group test has no time"));
    ranks.drop_connections(1);
    Status sent;
    while (sent.ok()) sent = ranks.connections(0).send(1, 0, -1, long_deadline());
    ASSERT_EQ(sent.message(), "rank 1 of group test has no time") << "attempt " << attempt;
  }
}

// Rank 1 connects, and rank 0 closes before it accepts.
TEST(ChannelConcurrency, CloseAllReachesConnectionsNotYetAccepted) {
  TwoRanks ranks;
  ranks.connect(1);
  // Repeats close_all, because the connection may not have reached rank 0 yet.
  ASSERT_TRUE(eventually([&] {
    ranks.connections(0).close_all(Status::timeout("rank 0 of group test lost the store"));
    return ranks.failure(1).has_happened();
  }));
  EXPECT_EQ(ranks.failure(1).reason().message(), "rank 0 of group test lost the store");
}

// If one of three ranks does not connect, the connection between the other two stays open, so that
// the reason of a failure can be sent.
TEST(ChannelConcurrency, KeepsOtherConnectionsOpenAfterAConnectTimeout) {
  const TwoRanks ranks;
  const auto failures = std::array{std::make_shared<Failure>(), std::make_shared<Failure>()};
  PeerConnections::Options options[2] = {ranks.options(0), ranks.options(1)};
  for (PeerConnections::Options& each : options) {
    each.rank_info.world_size = 3;
    each.peers.push_back(ranks.channel(0).address());  // a placeholder: rank 2 never connects
  }
  PeerConnections first(ranks.channel(0), options[0], failures[0]);
  PeerConnections second(ranks.channel(1), options[1], failures[1]);
  // The deadlines leave enough time to connect and to accept on a busy machine.
  EXPECT_EQ(second.connect(Deadline::after(milliseconds(500))).kind(), StatusKind::kTimeout);
  EXPECT_EQ(first.connect(Deadline::after(milliseconds(1000))).kind(), StatusKind::kTimeout);
  EXPECT_TRUE(first.reaches(1));
  EXPECT_TRUE(contract::consistently([&] { return !failures[0]->has_happened(); }));
  second.close_all(Status::timeout("rank 1 of group test lost the store"));
  ASSERT_TRUE(eventually([&] { return failures[0]->has_happened(); }));
  EXPECT_EQ(failures[0]->reason().message(), "rank 1 of group test lost the store");
}

TEST(ChannelConcurrency, ReceiveEndsAtItsDeadline) {
  TwoRanks ranks = TwoRanks::connected();
  const Status timeout_status =
      ranks.connections(0).receive(1, 0, Deadline::after(milliseconds(30))).status();
  EXPECT_EQ(timeout_status.kind(), StatusKind::kTimeout);
  EXPECT_THAT(timeout_status.message(), HasSubstr("rank 1 of group test sent nothing"));
}

TEST(ChannelConcurrency, RejectsConnectionsWithoutTheToken) {
  const std::unique_ptr<Channel> channel = *Channel::open();
  ChannelAddress wrong = channel->address();
  wrong.token[3] ^= 1;
  const ConnectionId name{Token{7}, 1, 0};
  const Result<UniqueFd> wrong_token_socket = Channel::connect(wrong, name, long_deadline());
  ASSERT_TRUE(wrong_token_socket.ok());
  EXPECT_TRUE(is_disconnected(wrong_token_socket->get()));
  const Failure none;
  EXPECT_EQ(channel->accept(name, none, past_deadline()).status().kind(), StatusKind::kTimeout);
  const Result<UniqueFd> known = Channel::connect(channel->address(), name, long_deadline());
  EXPECT_TRUE(channel->accept(name, none, long_deadline()).ok());
}

TEST(ChannelConcurrency, DropsMalformedAndSilentConnections) {
  const std::unique_ptr<Channel> channel = *Channel::open({milliseconds(20), 8});
  ChannelMessage hello;
  hello.text = bytes_of(channel->address().token);
  const std::string whole = to_bytes(hello);
  const std::string malformed[] = {"x", whole.substr(0, whole.size() - 1), whole + "x",
                                   std::string(kMaxMessageBytes + 1, 'x')};
  for (const std::string& bytes : malformed) {
    const UniqueFd socket = *connect_abstract(channel->address().name, milliseconds(1000));
    ASSERT_TRUE(send_message(socket.get(), span_of(bytes), -1, milliseconds(1000)).ok());
    EXPECT_TRUE(is_disconnected(socket.get())) << bytes.size();
  }
  const UniqueFd silent = *connect_abstract(channel->address().name, milliseconds(1000));
  EXPECT_TRUE(is_disconnected(silent.get()));
}

TEST(ChannelConcurrency, ConnectReturnsPeerLostWhenTheListenerHasEnded) {
  ChannelAddress address;
  {
    const std::unique_ptr<Channel> channel = *Channel::open();
    address = channel->address();
  }
  const Status lost = Channel::connect(address, {Token{7}, 1, 0}, long_deadline()).status();
  EXPECT_EQ(lost.kind(), StatusKind::kPeerLost);
  EXPECT_THAT(lost.message(), HasSubstr("rank 0 died"));
}

TEST(Channel, ConnectTimesOutWhenTheListenerDoesNotAccept) {
  const ChannelAddress address{text("ashlar-test-never-accepts-", ::getpid()), {}};
  const UniqueFd listening = *listen_abstract(address.name);
  ASSERT_EQ(::listen(listening.get(), 1), 0);  // at most two queued connections
  std::vector<UniqueFd> queued;
  Status last;
  while (last.ok() && queued.size() < 8) {
    Result<UniqueFd> called = Channel::connect(address, {Token{7}, 1, 0}, past_deadline());
    last = called.status();
    if (called.ok()) queued.push_back(*std::move(called));
  }
  EXPECT_EQ(last.kind(), StatusKind::kTimeout) << last.to_string();
  EXPECT_THAT(last.message(), HasSubstr("rank 0 accepted no connection"));
}

TEST(Channel, ConnectDoesNotReportPeerLostWhenOutOfDescriptors) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{3, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Status failed =
      Channel::connect({"ashlar-test-no-listener", {}}, {Token{7}, 1, 0}, long_deadline()).status();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(failed.kind(), StatusKind::kDeviceFault);
  EXPECT_EQ(failed.code(), EMFILE);
}

TEST(ChannelConcurrency, LeaksNoDescriptors) {
  const size_t before = open_fd_count();
  for (int i = 0; i < 3; ++i) {
    TwoRanks ranks = TwoRanks::connected();
    const UniqueFd memory(::memfd_create("test", MFD_CLOEXEC));
    ASSERT_TRUE(ranks.connections(0).send(1, 0, memory.get(), long_deadline()).ok());
    const Result<UniqueFd> unfetched =
        Channel::connect(ranks.channel(0).address(), {Token{9}, 1, 0}, long_deadline());
    ASSERT_TRUE(unfetched.ok());
  }
  EXPECT_EQ(open_fd_count(), before);
}

// Only the closed socket reveals that a process was killed.
TEST(Channel, DetectsAKilledProcess) {
  int addresses[2] = {-1, -1};
  ASSERT_EQ(::pipe(addresses), 0);
  const UniqueFd from(addresses[0]);
  const UniqueFd to(addresses[1]);
  ChildProcess child([&](int socket_fd) {
    ChannelAddress address{std::string(44, '\0'), {}};
    if (::read(from.get(), address.name.data(), 44) != 44) return 1;
    if (::read(from.get(), address.token.data(), 16) != 16) return 2;
    const Result<UniqueFd> link = Channel::connect(address, {Token{7}, 1, 0}, long_deadline());
    return link.ok() && notify(socket_fd) && wait_for_notification(socket_fd) ? 0 : 3;
  });
  const std::unique_ptr<Channel> channel = *Channel::open();
  ASSERT_EQ(channel->address().name.size(), 44U);
  ASSERT_EQ(::write(to.get(), channel->address().name.data(), 44), 44);
  ASSERT_EQ(::write(to.get(), channel->address().token.data(), 16), 16);
  const auto failure = std::make_shared<Failure>();
  auto link = std::make_shared<PeerConnection>();
  link->socket = *channel->accept({Token{7}, 1, 0}, *failure, long_deadline());
  link->peer = 1;
  link->group = "test";
  link->failure = failure;
  channel->watch(link);
  ASSERT_TRUE(wait_for_notification(child.socket_fd()));
  EXPECT_FALSE(failure->has_happened());
  child.kill();
  ASSERT_TRUE(eventually([&] { return failure->has_happened(); }));
  EXPECT_EQ(failure->reason().message(), "rank 1 of group test died");
}

}  // namespace
}  // namespace ashlar::symm
