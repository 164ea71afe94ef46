// SPDX-License-Identifier: Apache-2.0
//
// A rank is killed right after it sets a key in the store. The errors of the other ranks name the
// killed rank, and its keys expire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "mp/harness/ranks.h"
#include "unit/symm/stores/forwarding_store.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Kills the process right after it has set a key with the given suffix.
class KillingStore final : public ForwardingStore {
 public:
  KillingStore(std::shared_ptr<Store> store, std::string key_end)
      : ForwardingStore(std::move(store)), key_end_(std::move(key_end)) {}
  Status set(std::string_view key, std::string_view value, milliseconds time_to_live,
             Deadline deadline) override {
    Status done = ForwardingStore::set(key, value, time_to_live, deadline);
    if (key.ends_with(key_end_)) ::raise(SIGKILL);
    return done;
  }

 private:
  const std::string key_end_;
};

class StoreKeys : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Ends, StoreKeys,
                         ::testing::Values("/join/1", "/here/1", "/lives/1", "/0/1", "/1/1", "/2/1",
                                           "/3/1"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return "After" + name;
                         });

TEST_P(StoreKeys, ExpireAfterKilledRankWhenPeersLeave) {
  const std::string key_end = GetParam();
  RankProcesses ranks(3, [&](RankContext& context) -> std::string {
    if (context.rank == 1) context.store = std::make_shared<KillingStore>(context.store, key_end);
    // The deadline is short if the victim fails before ranks have connected, because then only the
    // deadline reveals a missing rank. The ranks start together, so that only the victim can be
    // missing at the deadline.
    if (!context.store->barrier("start", 3, kNoExpiry, long_deadline()).ok()) return "no barrier";
    const Deadline deadline = Deadline::after(key_end == "/join/1" ? seconds(1) : seconds(20));
    CommunicatorOptions options = context.options();
    options.pad_bytes = 64;
    Result<std::unique_ptr<Communicator>> group =
        Communicator::join(context.heap, context.store, options, deadline);
    if (!group.ok()) return group.status().to_string();
    return (*group)->rendezvous(*context.heap.allocate(64, {}), deadline).status().to_string();
  });
  std::vector<std::string> results = ranks.results();
  EXPECT_EQ(results[1], "killed");
  results.erase(results.begin() + 1);
  EXPECT_THAT(results, Each(AllOf(HasSubstr("rank 1 "), Not(HasSubstr("[")))));
  EXPECT_THAT(ranks.store_keys_after_three_leases(), IsEmpty());
}

// The killed rank has already set its key, so the other ranks complete the exchange and leave. The
// last rank to leave deletes the keys. Because the killed rank never leaves, the keys must expire
// instead.
TEST(StoreKeys, ExpireAfterRankIsKilledWhileLeaving) {
  RankProcesses ranks(3, [](RankContext& context) -> std::string {
    // Exchanges 0 and 1 belong to joining.
    if (context.rank == 1) context.store = std::make_shared<KillingStore>(context.store, "/2/1");
    return context.join()->leave(long_deadline()).message();
  });
  const std::vector<std::string> results = ranks.results();
  EXPECT_EQ(results[1], "killed");
  EXPECT_THAT(results[0], Not(HasSubstr("[")));
  EXPECT_THAT(results[2], Not(HasSubstr("[")));
  EXPECT_THAT(ranks.store_keys_after_three_leases(), IsEmpty());
}

}  // namespace
}  // namespace ashlar::symm
