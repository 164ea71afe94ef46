// SPDX-License-Identifier: Apache-2.0
//
// A rank that is killed just after it has put something into the store: the others name it, and see
// to what it left there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "mp/ranks.h"
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

// Whoever sets a key that ends so sets no other.
class DeadlyStore final : public ForwardingStore {
 public:
  DeadlyStore(std::shared_ptr<Store> store, std::string key_end)
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

class SymmetricKeys : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Ends, SymmetricKeys,
                         ::testing::Values("/join/1", "/here/1", "/lives/1", "/0/1", "/1/1", "/2/1",
                                           "/3/1"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return "After" + name;
                         });

TEST_P(SymmetricKeys, OfARankThatIsKilledAreGoneWhenTheOthersHaveParted) {
  const std::string key_end = GetParam();
  Ranks ranks(3, [&](RankParts& parts) -> std::string {
    if (parts.rank == 1) parts.store = std::make_shared<DeadlyStore>(parts.store, key_end);
    // Before anybody has met, only the deadline tells that somebody is missing.
    const Deadline deadline = Deadline::after(key_end == "/join/1" ? seconds(1) : seconds(20));
    CommunicatorOptions options = parts.options();
    options.pad_bytes = 64;
    Result<std::unique_ptr<Communicator>> group =
        Communicator::join(parts.heap, parts.store, options, deadline);
    if (!group.ok()) return group.status().to_string();
    return (*group)->rendezvous(*parts.heap.allocate(64, {}), deadline).status().to_string();
  });
  std::vector<std::string> said = ranks.outcomes();
  EXPECT_EQ(said[1], "killed");
  said.erase(said.begin() + 1);
  EXPECT_THAT(said, Each(AllOf(HasSubstr("rank 1 "), Not(HasSubstr("[")))));
  EXPECT_THAT(ranks.left_in_store_after_parting(), IsEmpty());
}

// The others have seen it come, and get through; nobody is the last to go.
TEST(SymmetricKeys, OfARankThatIsKilledInLeavingAreGoneSoonAfter) {
  Ranks ranks(3, [](RankParts& parts) -> std::string {
    // Exchanges 0 and 1 are of joining.
    if (parts.rank == 1) parts.store = std::make_shared<DeadlyStore>(parts.store, "/2/1");
    return parts.join()->leave(patience()).message();
  });
  const std::vector<std::string> said = ranks.outcomes();
  EXPECT_EQ(said[1], "killed");
  EXPECT_THAT(said[0], Not(HasSubstr("[")));
  EXPECT_THAT(said[2], Not(HasSubstr("[")));
  EXPECT_THAT(ranks.left_in_store_after_parting(), IsEmpty());
}

}  // namespace
}  // namespace ashlar::symm
