// SPDX-License-Identifier: Apache-2.0
//
// Tests joining: join records, confirmation, and stale records of earlier groups.
#include "symm/membership/member_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "symm/rendezvous/communicator.h"
#include "unit/symm/stores/forwarding_store.h"
#include "unit/symm/stores/store_fixtures.h"
#include "unit/symm/stores/user_store.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

const MemberListOptions kMemberListOptions{"p", "test", std::chrono::minutes(1)};

JoinRecord record_of(int rank, int world_size) {
  JoinRecord record;
  record.rank_info = {rank, world_size};
  record.member = 40 + static_cast<uint64_t>(rank);
  record.attempt = *generate_token();
  record.process = {1, 2, 3};
  record.host = "boot net";
  record.channel = {"name", {4, 5}};
  record.backend = "host";
  record.device = {6};
  record.lease_ms = 5000;
  record.pad_bytes = 77;
  record.has_transport = true;
  record.cores = CpuSet("\x05");
  return record;
}

TEST(MemberList, JoinRecordRoundTrips) {
  const JoinRecord record = record_of(1, 3);
  const std::string bytes = to_bytes(record);
  EXPECT_EQ(to_bytes(*parse_join_record(bytes)), bytes);
  EXPECT_EQ(parse_join_record(bytes)->channel.name, "name");
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_EQ(parse_join_record(bytes.substr(0, cut)).status().kind(), StatusKind::kFormat);
  }
  EXPECT_FALSE(parse_join_record(bytes + "x").ok());
}

TEST(MemberList, RejectsShortStoreResponses) {
  const auto store = UserStore::with_short_responses();
  const Status bad =
      gather_members(*store, kMemberListOptions, record_of(0, 1), long_deadline()).status();
  EXPECT_EQ(bad.kind(), StatusKind::kFormat);
  EXPECT_THAT(bad.message(), HasSubstr("returned 0 values for 1 keys"));
}

// The response with the join records is complete, but the response with the confirmations is too
// short.
TEST(MemberList, RejectsShortStoreResponsesWhileConfirming) {
  UserStore store;
  int read_count = 0;
  store.change_responses = [&](UserStore::Responses& responses) {
    if (++read_count == 2) responses.clear();
  };
  EXPECT_EQ(
      gather_members(store, kMemberListOptions, record_of(0, 1), long_deadline()).status().kind(),
      StatusKind::kFormat);
}

TEST(MemberListConcurrency, IgnoresRecordsLeftByACrash) {
  const std::shared_ptr<Store> store = make_memory_store();
  ASSERT_TRUE(store->set("p/join/0", to_bytes(record_of(0, 3)), kNoExpiry, long_deadline()).ok());
  ASSERT_TRUE(store->set("p/join/1", "nonsense", kNoExpiry, long_deadline()).ok());
  ASSERT_TRUE(store->set("p/join/2", to_bytes(record_of(2, 3)), kNoExpiry, long_deadline()).ok());
  std::vector<Token> tokens(3);
  std::vector<std::thread> ranks;
  for (int rank = 2; rank >= 0; --rank) {
    ranks.emplace_back([&, rank] {
      const auto member_list =
          gather_members(*store, kMemberListOptions, record_of(rank, 3), long_deadline());
      ASSERT_TRUE(member_list.ok()) << member_list.status().to_string();
      EXPECT_EQ(member_list->records[1].member, 41U);
      tokens[rank] = member_list->token;
    });
    // The sleep gives this rank time to read the stale records before the next rank starts.
    std::this_thread::sleep_for(milliseconds(20));
  }
  for (std::thread& each : ranks) each.join();
  EXPECT_EQ(tokens[0], tokens[1]);
  EXPECT_EQ(tokens[0], tokens[2]);
}

TEST(MemberList, StaleRecordDoesNotCountAsJoined) {
  const std::shared_ptr<Store> store = make_memory_store();
  ASSERT_TRUE(store->set("p/join/1", to_bytes(record_of(1, 2)), kNoExpiry, long_deadline()).ok());
  const Status timeout_status =
      gather_members(*store, kMemberListOptions, record_of(0, 2), Deadline::after(milliseconds(30)))
          .status();
  EXPECT_EQ(timeout_status.kind(), StatusKind::kTimeout);
  EXPECT_THAT(timeout_status.message(), HasSubstr("rank 1 of group test did not join"));
  const std::string own[] = {"p/join/0"};
  EXPECT_FALSE((*store->try_get(own, long_deadline()))[0]);  // rank 0 erases its own record
  const std::string old[] = {"p/join/1"};
  EXPECT_FALSE((*store->try_get(old, long_deadline()))[0]);  // also the stale record of rank 1
}

// Lets a rank join a group of three. Returns its timeout error.
Status try_to_join(Store& store, int rank, milliseconds time) {
  return gather_members(store, kMemberListOptions, record_of(rank, 3), Deadline::after(time))
      .status();
}

// Rank 2 published its record and died. Rank 0 times out first and withdraws its record. Rank 1
// times out later and must also report rank 2, not rank 0.
TEST(MemberListConcurrency, AllRanksNameTheSameMissingRank) {
  const std::shared_ptr<Store> store = make_memory_store();
  ASSERT_TRUE(store->set("p/join/2", to_bytes(record_of(2, 3)), kNoExpiry, long_deadline()).ok());
  Status last;
  std::thread last_rank([&] { last = try_to_join(*store, 1, milliseconds(3000)); });
  ASSERT_TRUE(store->get("p/join/1", long_deadline()).ok());
  const Status first = try_to_join(*store, 0, milliseconds(1000));
  last_rank.join();
  EXPECT_EQ(first.kind(), StatusKind::kTimeout);
  EXPECT_THAT(first.message(), HasSubstr("rank 2 of group test did not join"));
  EXPECT_EQ(last.message(), first.message());
}

// Rank 0 times out just before rank 2 joins.
TEST(MemberListConcurrency, RemainingRankReportsTheReasonOfTheFirst) {
  const std::shared_ptr<Store> store = make_memory_store();
  Status remaining;
  std::thread last_rank([&] { remaining = try_to_join(*store, 1, milliseconds(3000)); });
  ASSERT_TRUE(store->get("p/join/1", long_deadline()).ok());
  const Status first = try_to_join(*store, 0, milliseconds(1000));
  const Status timeout_status = try_to_join(*store, 2, milliseconds(100));
  last_rank.join();
  EXPECT_THAT(first.message(), HasSubstr("rank 2 of group test did not join"));
  EXPECT_EQ(remaining.message(), first.message());
  EXPECT_EQ(timeout_status.kind(), StatusKind::kTimeout);
}

TEST(MemberList, TimeoutNamesMissingRanksEvenIfTheStoreIsSlow) {
  UserStore store;
  store.response_time = milliseconds(100);
  const Status timeout_status = try_to_join(store, 0, milliseconds(600));
  EXPECT_EQ(timeout_status.kind(), StatusKind::kTimeout);
  EXPECT_THAT(timeout_status.message(), HasSubstr("ranks 1 and 2 of group test did not join"));
}

TEST(MemberList, ReportsTwoProcessesWithTheSameRank) {
  UserStore store;
  store.before_read = [](Store& memory) {  // acts as the other process, before every read
    ASSERT_TRUE(memory.set("p/join/0", to_bytes(record_of(0, 2)), kNoExpiry, long_deadline()).ok());
  };
  const Status timeout_status =
      gather_members(store, kMemberListOptions, record_of(0, 2), Deadline::after(milliseconds(30)))
          .status();
  EXPECT_EQ(timeout_status.kind(), StatusKind::kTimeout);
  EXPECT_THAT(timeout_status.message(),
              AllOf(HasSubstr("rank 1 of group test did not join"),
                    HasSubstr("another process joined as rank 0: give each process its own rank")));
}

TEST(MemberList, OwnRecordLeftByACrashIsNotARankConflict) {
  const std::shared_ptr<Store> store = make_memory_store();
  ASSERT_TRUE(store->set("p/join/0", to_bytes(record_of(0, 2)), kNoExpiry, long_deadline()).ok());
  const Status timeout_status =
      gather_members(*store, kMemberListOptions, record_of(0, 2), Deadline::after(milliseconds(30)))
          .status();
  EXPECT_THAT(timeout_status.message(), Not(HasSubstr("another process joined")));
}

// A user-defined device back end whose memory is host memory.
class DeviceBackend final : public Backend {
 public:
  explicit DeviceBackend(uint8_t id) : id_(id) {}
  std::string_view name() const override { return id_ == 99 ? "another" : "device"; }
  DeviceUuid device() const override { return {id_}; }
  Result<std::shared_ptr<MappedMemory>> allocate(size_t bytes, size_t zero_bytes) override {
    if (id_ == 50) return Status::out_of_memory("the device is full");
    return host_->allocate(bytes, zero_bytes);
  }
  Result<UniqueFd> export_fd(const MappedMemory& memory) override {
    return host_->export_fd(memory);
  }
  Result<std::shared_ptr<MappedMemory>> import_fd(UniqueFd fd, size_t bytes) override {
    return host_->import_fd(std::move(fd), bytes);
  }

 private:
  const uint8_t id_;
  std::unique_ptr<Backend> host_ = make_host_backend();
};

// Lets two ranks with these devices join. Returns their errors.
std::vector<Status> join_with(uint8_t first, uint8_t second, const CommunicatorOptions& options,
                              const CommunicatorOptions& options_of_second) {
  const std::shared_ptr<Store> store = make_memory_store();
  std::vector<Status> statuses(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      const std::unique_ptr<Process> process = *Process::start({});
      DeviceBackend backend(rank == 0 ? first : second);
      RankHeap heap(*process, backend, {});
      CommunicatorOptions own = rank == 0 ? options : options_of_second;
      own.rank = rank;
      own.world_size = 2;
      auto joined = Communicator::join(heap, store, own, long_deadline());
      statuses[rank] = joined.status();
      if (joined.ok()) statuses[rank] = (*joined)->leave(long_deadline());
    });
  }
  for (std::thread& each : ranks) each.join();
  EXPECT_EQ(statuses[0].message(), statuses[1].message());
  return statuses;
}

std::vector<Status> join_with(uint8_t first, uint8_t second, const CommunicatorOptions& options) {
  return join_with(first, second, options, options);
}

// If ranks joined with different options, one rank would wait for a step that the other rank skips.
TEST(MemberListConcurrency, RejectsDifferentOptionsByName) {
  CommunicatorOptions shares;
  shares.may_share_device = true;
  CommunicatorOptions measures;
  measures.measures_thresholds = true;
  CommunicatorOptions larger_one_shot;
  larger_one_shot.one_shot_bytes = 4096;
  const std::vector<Status> sharing = join_with(7, 7, shares, {});
  EXPECT_EQ(sharing[0].kind(), StatusKind::kInvalidArgument);
  EXPECT_THAT(sharing[0].message(), HasSubstr("may_share_device is: rank 0: true, rank 1: false"));
  const std::vector<Status> measuring = join_with(1, 2, {}, measures);
  EXPECT_EQ(measuring[0].kind(), StatusKind::kInvalidArgument);
  EXPECT_THAT(measuring[0].message(),
              HasSubstr("measure_thresholds is: rank 0: false, rank 1: true"));
  const std::vector<Status> one_shot = join_with(1, 2, {}, larger_one_shot);
  EXPECT_EQ(one_shot[0].kind(), StatusKind::kInvalidArgument);
  EXPECT_THAT(one_shot[0].message(), HasSubstr("one_shot_bytes is: rank 0: 0, rank 1: 4096"));
}

TEST(MemberListConcurrency, RejectsASharedDeviceUnlessAllowed) {
  EXPECT_TRUE(join_with(1, 2, {})[0].ok());
  const Status refused = join_with(7, 7, {})[0];
  EXPECT_EQ(refused.kind(), StatusKind::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("ranks 0 and 1 of group world use the same device"));
  CommunicatorOptions options;
  options.may_share_device = true;
  EXPECT_TRUE(join_with(7, 7, options)[0].ok());
}

TEST(MemberListConcurrency, RejectsDifferentBackEnds) {
  EXPECT_THAT(join_with(1, 99, {})[0].message(), HasSubstr("rank 0: device, rank 1: another"));
}

// A store that hides the confirmation of rank 1.
class BlindStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Result<std::vector<std::optional<std::string>>> try_get(std::span<const std::string> keys,
                                                          Deadline deadline) override {
    auto found = ForwardingStore::try_get(keys, deadline);
    for (size_t i = 0; found.ok() && i < keys.size(); ++i) {
      if (keys[i].ends_with("/here/1")) (*found)[i].reset();
    }
    return found;
  }
};

// Rank 1 has confirmed, but rank 0 timed out before it saw the last confirmation.
TEST(MemberListConcurrency, ConfirmedRankReportsTheReasonOfAWithdrawal) {
  const std::shared_ptr<Store> store = make_memory_store();
  const std::shared_ptr<Store> stores[] = {std::make_shared<BlindStore>(store), store};
  std::vector<Status> statuses(2);
  std::latch rank_1_joining(1);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      const std::unique_ptr<Process> process = *Process::start({});
      RankHeap heap(*process, process->backends().activate(), {});
      CommunicatorOptions options;
      options.rank = rank;
      options.world_size = 2;
      options.on_phase = [&](Phase phase) {
        if (rank == 1 && phase == Phase::kJoining) rank_1_joining.count_down();
      };
      if (rank == 0) rank_1_joining.wait();
      const Deadline deadline = rank == 0 ? Deadline::after(milliseconds(1000)) : long_deadline();
      statuses[rank] = Communicator::join(heap, stores[rank], options, deadline).status();
    });
  }
  for (std::thread& each : ranks) each.join();
  EXPECT_EQ(statuses[0].kind(), StatusKind::kTimeout);
  EXPECT_THAT(statuses[0].message(), HasSubstr("rank 1 of group world did not join"));
  EXPECT_EQ(statuses[1].message(), statuses[0].message());
}

TEST(MemberListConcurrency, AllRanksFailIfOneCannotAllocateThePad) {
  CommunicatorOptions options;
  options.pad_bytes = 100;
  const Status full = join_with(1, 50, options)[1];
  EXPECT_TRUE(full.is_out_of_memory());
  EXPECT_EQ(full.message(), "rank 1: the device is full");
}

}  // namespace
}  // namespace ashlar::symm
