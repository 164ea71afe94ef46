// SPDX-License-Identifier: Apache-2.0
//
// Tests communicators whose ranks are threads of one process, which share the owner's mapping.
#include "symm/rendezvous/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "contract/waiting.h"
#include "unit/symm/stores/store_fixtures.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class CommunicatorConcurrency : public ::testing::TestWithParam<int> {
 protected:
  // Runs `body` for every rank on its own thread and with its own heap.
  template <typename Body>
  void on_all_ranks(const Body& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < GetParam(); ++rank) {
      threads.emplace_back([this, rank, &body] {
        RankHeap heap(*process_, process_->backends().activate(), {});
        body(heap, options_of(rank));
      });
    }
    for (std::thread& each : threads) each.join();
  }
  static CommunicatorOptions options_of(int rank) {
    CommunicatorOptions options;
    options.rank = rank;
    options.world_size = GetParam();
    options.pad_bytes = 256;
    return options;
  }

  std::unique_ptr<Process> process_ = *Process::start({});
  std::shared_ptr<Store> store_ = make_memory_store();
};

INSTANTIATE_TEST_SUITE_P(WorldSizes, CommunicatorConcurrency, ::testing::Values(1, 2, 3, 5, 8),
                         ::testing::PrintToStringParamName());

TEST_P(CommunicatorConcurrency, RanksOfOneProcessShareTheMapping) {
  std::vector<std::byte*> buffers(GetParam());
  on_all_ranks([&](RankHeap& heap, const CommunicatorOptions& options) {
    auto joined = Communicator::join(heap, store_, options, long_deadline());
    ASSERT_TRUE(joined.ok()) << joined.status().to_string();
    Communicator& group = **joined;
    buffers[options.rank] = *heap.allocate(64, {});
    buffers[options.rank][3] = std::byte(options.rank);
    const Result<PeerHandle> handle = group.rendezvous(buffers[options.rank], long_deadline());
    ASSERT_TRUE(handle.ok()) << handle.status().to_string();
    for (int rank = 0; rank < GetParam(); ++rank) {
      EXPECT_EQ(handle->peers().buffer(rank), buffers[rank]);
      EXPECT_EQ((*handle->at(rank, 3, 1))[0], std::byte(rank));
      EXPECT_EQ(group.peer_access(rank), PeerAccess::kDirect);
    }
    EXPECT_EQ(group.pads()->pad_bytes(), 256U);
    EXPECT_TRUE(group.leave(long_deadline()).ok());
    EXPECT_EQ(group.leave(long_deadline()).kind(), StatusKind::kInvalidArgument);
  });
}

TEST_P(CommunicatorConcurrency, SecondRendezvousIsLocal) {
  on_all_ranks([&](RankHeap& heap, const CommunicatorOptions& options) {
    const std::unique_ptr<Communicator> group =
        *Communicator::join(heap, store_, options, long_deadline());
    std::byte* buffer = *heap.allocate(64, {});
    const Result<PeerHandle> first = group->rendezvous(buffer, long_deadline());
    ASSERT_TRUE(first.ok());
    if (options.rank == 0) {
      const Result<PeerHandle> again = group->rendezvous(buffer + 16, past_deadline());
      ASSERT_TRUE(again.ok()) << again.status().to_string();
      EXPECT_EQ(&again->peers(), &first->peers());
      EXPECT_EQ(again->offset(), 16U);
      EXPECT_EQ(*again->at(0, 4, 4), buffer + 20);
    }
    EXPECT_TRUE(group->leave(long_deadline()).ok());
  });
}

TEST_P(CommunicatorConcurrency, PersistentBlockKeepsItsPeerTable) {
  on_all_ranks([&](RankHeap& heap, const CommunicatorOptions& options) {
    const std::unique_ptr<Communicator> group =
        *Communicator::join(heap, store_, options, long_deadline());
    std::byte* buffer = *heap.allocate(64, {{}, 1});
    ASSERT_TRUE(group->rendezvous(buffer, long_deadline()).ok());
    ASSERT_TRUE(heap.free(buffer).ok());
    EXPECT_EQ(group->rendezvous(buffer, past_deadline()).status().kind(),
              StatusKind::kInvalidArgument);
    ASSERT_EQ(*heap.allocate(64, {{}, 1}), buffer);
    EXPECT_TRUE(group->rendezvous(buffer, past_deadline()).ok());
    EXPECT_TRUE(group->leave(long_deadline()).ok());
  });
}

// A back end on host memory, with a device UUID unless `first` is 0.
class UuidBackend final : public Backend {
 public:
  explicit UuidBackend(uint8_t first) { uuid_[0] = first; }
  std::string_view name() const override { return "devices"; }
  DeviceUuid device() const override { return uuid_; }
  Result<std::shared_ptr<MappedMemory>> allocate(size_t bytes, size_t zero_bytes) override {
    return host_->allocate(bytes, zero_bytes);
  }
  Result<UniqueFd> export_fd(const MappedMemory& memory) override {
    return host_->export_fd(memory);
  }
  Result<std::shared_ptr<MappedMemory>> import_fd(UniqueFd fd, size_t bytes) override {
    return host_->import_fd(std::move(fd), bytes);
  }

 private:
  const std::unique_ptr<Backend> host_ = make_host_backend();
  DeviceUuid uuid_{};
};

// The handle type depends on whether the memory has a device UUID, so all ranks must agree.
TEST_P(CommunicatorConcurrency, RejectsMixedDeviceUuidsOnAllRanks) {
  for (const int odd : {0, GetParam() - 1}) {
    on_all_ranks([&](RankHeap&, const CommunicatorOptions& options) {
      UuidBackend backend(options.rank == odd ? 0 : static_cast<uint8_t>(options.rank + 1));
      RankHeap heap(*process_, backend, {});
      const Status joined = Communicator::join(heap, store_, options, long_deadline()).status();
      if (GetParam() == 1) {
        EXPECT_TRUE(joined.ok()) << "no rank differs: " << joined.to_string();
        return;
      }
      EXPECT_EQ(joined.kind(), StatusKind::kInvalidArgument);
      EXPECT_THAT(joined.message(), HasSubstr("whether their memory has a device UUID: "));
      EXPECT_THAT(joined.message(), HasSubstr("rank " + std::to_string(odd) + ": false"));
    });
  }
}

// A fixture with two ranks. The second rank joins a rendezvous only on request; a thread of the
// first rank waits for the second rank in a rendezvous without a deadline.
class RendezvousLockConcurrency : public ::testing::Test {
 protected:
  RendezvousLockConcurrency() {
    std::thread other([this] { groups_[1] = join(1); });
    groups_[0] = join(0);
    other.join();
    for (int rank = 0; rank < 2; ++rank) buffers_[rank] = *heaps_[rank].allocate(64, {});
    record_count_ = 0;
    waiting_ = std::thread([this] { ended_ = rendezvous(0, Deadline::never()); });
    EXPECT_TRUE(contract::eventually([this] { return record_count_ == 1; }));
  }
  Status rendezvous(int rank, Deadline deadline) {
    return groups_[rank]->rendezvous(buffers_[rank], deadline).status();
  }

 private:
  std::unique_ptr<Communicator> join(int rank) {
    CommunicatorOptions options;
    options.rank = rank;
    options.world_size = 2;
    if (rank == 0) {
      options.on_phase = [this](Phase phase) {
        record_count_ += phase == Phase::kExchangingRecords;
      };
    }
    return *Communicator::join(heaps_[rank], store_, options, long_deadline());
  }

  std::unique_ptr<Process> process_ = *Process::start({});
  std::shared_ptr<Store> store_ = make_memory_store();
  RankHeap heaps_[2] = {{*process_, process_->backends().activate(), {}},
                        {*process_, process_->backends().activate(), {}}};
  std::byte* buffers_[2] = {};
  std::atomic<int> record_count_{0};

 protected:
  std::unique_ptr<Communicator> groups_[2];
  Status ended_;
  std::thread waiting_;
};

TEST_F(RendezvousLockConcurrency, SecondThreadTimesOutWithoutFailingTheGroup) {
  std::atomic<bool> has_timed_out{false};
  std::thread other([&] {
    EXPECT_TRUE(contract::eventually([&] { return has_timed_out.load(); }));
    EXPECT_TRUE(rendezvous(1, long_deadline()).ok());
  });
  const Status timeout_status = rendezvous(0, Deadline::after(milliseconds(50)));
  has_timed_out = true;
  EXPECT_EQ(timeout_status.kind(), StatusKind::kTimeout);
  EXPECT_THAT(timeout_status.message(),
              HasSubstr("another thread of this rank was in a rendezvous"));
  other.join();
  waiting_.join();
  EXPECT_TRUE(ended_.ok()) << ended_.to_string();
  EXPECT_TRUE(rendezvous(0, past_deadline()).ok());
  std::thread leaving([&] { EXPECT_TRUE(groups_[1]->leave(long_deadline()).ok()); });
  EXPECT_TRUE(groups_[0]->leave(long_deadline()).ok());
  leaving.join();
}

TEST_F(RendezvousLockConcurrency, LeaveFailsTheGroupWhileAnotherThreadWaits) {
  const Status timeout_status = groups_[0]->leave(Deadline::after(milliseconds(50)));
  EXPECT_EQ(timeout_status.kind(), StatusKind::kTimeout);
  EXPECT_THAT(timeout_status.message(), HasSubstr("rank 0 of group world could not leave"));
  waiting_.join();
  EXPECT_EQ(ended_.message(), timeout_status.message());
  EXPECT_EQ(rendezvous(1, long_deadline()).message(), timeout_status.message());
}

class CommunicatorTest : public ::testing::Test {
 protected:
  Status join(const CommunicatorOptions& options) {
    return Communicator::join(heap_, store_, options, Deadline::after(milliseconds(50))).status();
  }
  std::unique_ptr<Process> process_ = *Process::start({});
  RankHeap heap_{*process_, process_->backends().activate(), {}};
  std::shared_ptr<Store> store_ = make_memory_store();
};

TEST_F(CommunicatorTest, TimeoutNamesTheRanksThatDidNotJoin) {
  CommunicatorOptions options;
  options.rank = 1;
  options.world_size = 3;
  const Status timeout_status = join(options);
  EXPECT_EQ(timeout_status.kind(), StatusKind::kTimeout);
  EXPECT_THAT(timeout_status.message(), HasSubstr("ranks 0 and 2 of group world did not join"));
}

TEST_F(CommunicatorTest, RejectsInvalidOptions) {
  const auto refused = [&](auto change) {
    CommunicatorOptions options;
    change(options);
    return join(options).kind() == StatusKind::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](CommunicatorOptions& o) { o.rank = 1; }));
  EXPECT_TRUE(refused([](CommunicatorOptions& o) { o.rank = -1; }));
  EXPECT_TRUE(refused([](CommunicatorOptions& o) { o.world_size = 0; }));
  EXPECT_TRUE(refused([](CommunicatorOptions& o) { o.name = ""; }));
  EXPECT_TRUE(refused([](CommunicatorOptions& o) { o.name = "a/b"; }));
  EXPECT_TRUE(refused([](CommunicatorOptions& o) { o.job = std::string(65, 'x'); }));
  EXPECT_TRUE(refused([](CommunicatorOptions& o) { o.members = {1, 2}; }));
  EXPECT_TRUE(refused([](CommunicatorOptions& o) { o.world_size = 2, o.members = {1, 1}; }));
  EXPECT_EQ(Communicator::join(heap_, nullptr, {}, long_deadline()).status().kind(),
            StatusKind::kInvalidArgument);
  EXPECT_EQ(Process::start({milliseconds(10), milliseconds(10)}).status().kind(),
            StatusKind::kInvalidArgument);
}

TEST(ProcessOptions, RejectsLeasesShorterThanThreeHeartbeats) {
  EXPECT_TRUE(Process::start({milliseconds(10), milliseconds(30)}).ok());
  const Status refused = Process::start({milliseconds(10), milliseconds(29)}).status();
  EXPECT_EQ(refused.kind(), StatusKind::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("a lease of 29 ms and a heartbeat every 10 ms"));
  EXPECT_EQ(Process::start({milliseconds(0), milliseconds(30)}).status().kind(),
            StatusKind::kInvalidArgument);
}

TEST_F(CommunicatorTest, HandleRejectsRangesOutsideItsBuffer) {
  const std::unique_ptr<Communicator> group =
      *Communicator::join(heap_, store_, {}, long_deadline());
  std::byte* buffer = *heap_.allocate(100, {});
  const PeerHandle handle = *group->rendezvous(buffer + 10, long_deadline());
  EXPECT_EQ(*handle.at(0, 90, 0), buffer + 100);
  EXPECT_EQ(*handle.at(0, 0, 90), buffer + 10);
  const std::tuple<int, int64_t, size_t> wrong[] = {
      {0, 0, 91},        {0, 91, 0},       {0, -1, 1}, {0, INT64_MIN, 1},
      {0, INT64_MAX, 1}, {0, 1, SIZE_MAX}, {1, 0, 1},  {-1, 0, 1}};
  for (const auto& [rank, offset, bytes] : wrong) {
    EXPECT_EQ(handle.at(rank, offset, bytes).status().kind(), StatusKind::kInvalidArgument);
  }
  EXPECT_EQ(group->rendezvous(&handle, long_deadline()).status().kind(),
            StatusKind::kInvalidArgument);
  EXPECT_TRUE(group->leave(long_deadline()).ok());
}

}  // namespace
}  // namespace ashlar::symm
