// SPDX-License-Identifier: Apache-2.0
//
// Tests that a group leaves no keys in any kind of store except the TCP store, even if the group
// fails. Ranks are threads, each with its own process state. A rank that is killed is a process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <latch>
#include <optional>
#include <set>
#include <thread>

#include "ashlar/errors.h"
#include "ashlar/symmetric.h"
#include "base/mutex.h"
#include "base/text.h"
#include "contract/waiting.h"
#include "mp/child_process.h"
#include "symm/rendezvous/communicator.h"
#include "unit/symm/stores/forwarding_store.h"
#include "unit/symm/stores/store_fixtures.h"
#include "unit/symm/stores/user_store.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Leaves out the TCP store to save time, because these tests wait for leases. A TCP store sets keys
// only when the group does, like the other stores.
std::vector<StoreKind> without_tcp(std::vector<StoreKind> kinds) {
  std::erase_if(kinds, [](const StoreKind& kind) { return kind.name == "Tcp"; });
  return kinds;
}

// All keys that any rank has set. Rank 1 may run in another process, so its keys are derived from
// the keys of the other ranks.
class SeenKeys {
 public:
  void add(std::string_view key) ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    keys_.emplace(key);
    keys_.emplace(text(key.substr(0, key.rfind('/')), "/1"));
  }
  std::vector<std::string> remaining_in(Store& store) ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const std::vector<std::string> all(keys_.begin(), keys_.end());
    const auto found = store.try_get(all, long_deadline());
    if (!found.ok()) return {found.status().to_string()};
    std::vector<std::string> remaining_keys;
    for (size_t i = 0; i < all.size(); ++i) {
      if ((*found)[i]) remaining_keys.push_back(all[i]);
    }
    return remaining_keys;
  }

 private:
  Mutex mutex_;
  std::set<std::string> keys_ ASHLAR_GUARDED_BY(mutex_);
};

// One rank's access to the store, which the test can disconnect.
class DisconnectableStore final : public ForwardingStore {
 public:
  DisconnectableStore(std::shared_ptr<Store> store, SeenKeys& seen)
      : ForwardingStore(std::move(store)), seen_(seen) {}
  void disconnect() { is_disconnected_ = true; }

  Status set(std::string_view key, std::string_view value, milliseconds time_to_live,
             Deadline deadline) override {
    if (is_disconnected_) return unreachable();
    seen_.add(key);
    return ForwardingStore::set(key, value, time_to_live, deadline);
  }
  Result<std::vector<std::optional<std::string>>> try_get(std::span<const std::string> keys,
                                                          Deadline deadline) override {
    return is_disconnected_ ? unreachable() : ForwardingStore::try_get(keys, deadline);
  }
  Result<int64_t> add(std::string_view key, int64_t amount, milliseconds time_to_live,
                      Deadline deadline) override {
    if (is_disconnected_) return unreachable();
    seen_.add(key);
    return ForwardingStore::add(key, amount, time_to_live, deadline);
  }
  Result<bool> erase(std::string_view key, Deadline deadline) override {
    return is_disconnected_ ? unreachable() : ForwardingStore::erase(key, deadline);
  }

 private:
  static Status unreachable() { return Status::timeout("the store does not answer"); }

  SeenKeys& seen_;
  std::atomic<bool> is_disconnected_{false};
};

class LeaveConcurrency : public ::testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override {
    fixture_ = GetParam().make();
    if (fixture_ == nullptr) GTEST_SKIP() << "NOT TESTED: redis-server is not installed";
  }

  // Runs one of three ranks.
  template <typename Body>
  void on_rank(int rank, const Body& body) {
    const auto store = std::make_shared<DisconnectableStore>(fixture_->open(), seen_);
    const std::unique_ptr<Process> process =
        *Process::start({.heartbeat = milliseconds(100), .lease = milliseconds(2000)});
    RankHeap heap(*process, process->backends().activate(), {});
    CommunicatorOptions options;
    options.rank = rank;
    options.world_size = 3;
    auto group = Communicator::join(heap, store, options, long_deadline());
    ASSERT_TRUE(group.ok()) << group.status().to_string();
    body(*std::move(group), *store, *heap.allocate(64, {}));
  }

  template <typename Body>
  void on_ranks(const std::vector<int>& ranks, const Body& body) {
    std::vector<std::thread> threads;
    for (const int rank : ranks) {
      threads.emplace_back([&, rank] { on_rank(rank, body); });
    }
    for (std::thread& each : threads) each.join();
  }
  template <typename Body>
  void on_three_ranks(const Body& body) {
    on_ranks({0, 1, 2}, body);
  }

  // Rank 1 runs in its own process and sends the signal to itself. No rank may leave keys.
  void expect_no_keys_after_signal(int signal) {
    ChildProcess rank_1([&](int) {
      on_rank(1, [&](std::unique_ptr<Communicator>, Store&, std::byte*) { ::raise(signal); });
      return 0;
    });
    on_ranks({0, 2}, [](std::unique_ptr<Communicator> group, Store&, std::byte* buffer) {
      EXPECT_THAT(group->rendezvous(buffer, long_deadline()).status().to_string(),
                  AllOf(HasSubstr("peer lost"), HasSubstr("rank 1 of group world")));
    });
    rank_1.kill();
    EXPECT_THAT(remaining_keys(), IsEmpty());
  }

  std::vector<std::string> remaining_keys() {
    const std::shared_ptr<Store> store = fixture_->open();
    (void)contract::eventually([&] { return seen_.remaining_in(*store).empty(); });
    return seen_.remaining_in(*store);
  }

  std::unique_ptr<StoreFixture> fixture_;
  SeenKeys seen_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, LeaveConcurrency,
                         ::testing::ValuesIn(without_tcp(all_store_kinds())),
                         [](const auto& each) { return each.param.name; });

TEST_P(LeaveConcurrency, LeavesNoKeysWhenOneRankDropsTheGroup) {
  on_three_ranks([](std::unique_ptr<Communicator> group, Store&, std::byte* buffer) {
    if (group->rank_info().rank == 1) return;
    EXPECT_THAT(group->rendezvous(buffer, long_deadline()).status().to_string(),
                HasSubstr("rank 1 of group world destroyed its group without calling leave"));
  });
  EXPECT_THAT(remaining_keys(), IsEmpty());
}

// A rank that has lost the store cannot erase its keys, so the other ranks must erase them.
TEST_P(LeaveConcurrency, LeavesNoKeysWhenOneRankLosesTheStore) {
  std::latch others(2);
  on_three_ranks(
      [&](std::unique_ptr<Communicator> group, DisconnectableStore& store, std::byte* buffer) {
        if (group->rank_info().rank == 1) {
          store.disconnect();
          others.wait();
          EXPECT_FALSE(group->rendezvous(buffer, long_deadline()).ok());
          return;
        }
        EXPECT_THAT(group->rendezvous(buffer, long_deadline()).status().to_string(),
                    AllOf(HasSubstr("peer lost"), HasSubstr("rank 1 of group world")));
        group.reset();
        others.count_down();
      });
  EXPECT_THAT(remaining_keys(), IsEmpty());
}

TEST_P(LeaveConcurrency, LeavesNoKeysWhenAllRanksLeave) {
  on_three_ranks([](std::unique_ptr<Communicator> group, Store&, std::byte* buffer) {
    EXPECT_TRUE(group->rendezvous(buffer, long_deadline()).ok());
    EXPECT_TRUE(group->leave(long_deadline()).ok());
  });
  EXPECT_THAT(seen_.remaining_in(*fixture_->open()), IsEmpty());
}

// A thread of rank 0 is in a rendezvous, in a call of the store that does not return.
TEST(RepeatedLeaveConcurrency, LeavesOnceTheStoreResponds) {
  const auto store = std::make_shared<UserStore>();
  std::atomic<std::thread::id> blocked_thread{};
  std::latch is_blocked(1);
  std::latch has_response(1);
  store->rejects_key = [&](std::string_view) {
    std::thread::id self = std::this_thread::get_id();
    if (!blocked_thread.compare_exchange_strong(self, {})) return false;
    is_blocked.count_down();
    has_response.wait();
    return false;
  };
  std::array<Heap, 2> heaps = {Heap(HeapOptions{}), Heap(HeapOptions{})};
  const auto join = [&](int rank) {
    GroupOptions options;
    options.rank = rank;
    options.world_size = 2;
    options.measure_thresholds = false;
    return Group::join(heaps[static_cast<size_t>(rank)], store, options);
  };
  std::optional<Group> other;
  std::thread joining([&] { other.emplace(join(1)); });
  Group group = join(0);
  joining.join();
  const SymmetricBuffer buffer = heaps[0].allocate(64);
  std::thread waiting([&] {
    blocked_thread = std::this_thread::get_id();
    EXPECT_THROW((void)group.rendezvous(buffer), Error);
  });
  is_blocked.wait();
  const auto leave = [&]() -> std::string {
    try {
      group.leave(milliseconds(50));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(leave(), HasSubstr("rank 0 of group world could not leave"));
  has_response.count_down();
  waiting.join();
  EXPECT_THAT(leave(), HasSubstr("rank 0 of group world could not leave")) << "leaves this time";
  EXPECT_THAT(leave(), HasSubstr("group world was already left"));
}

class LeaveProcesses : public LeaveConcurrency {};

INSTANTIATE_TEST_SUITE_P(Kinds, LeaveProcesses,
                         ::testing::ValuesIn(without_tcp(kinds_for_processes())),
                         [](const auto& each) { return each.param.name; });

TEST_P(LeaveProcesses, LeavesNoKeysWhenARankIsKilled) { expect_no_keys_after_signal(SIGKILL); }

TEST_P(LeaveProcesses, LeavesNoKeysWhenARankIsSuspended) { expect_no_keys_after_signal(SIGSTOP); }

}  // namespace
}  // namespace ashlar::symm
