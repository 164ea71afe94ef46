// SPDX-License-Identifier: Apache-2.0
//
// Row 21 of the acceptance checklist: what a group puts into its store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/mutex.h"
#include "mp/symmetric_rank.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;
using ::testing::Each;
using ::testing::IsEmpty;

constexpr size_t kBytes = size_t{64} * 1024;

// A store that remembers which keys were set, and whether each has an end.
class RememberingStore : public Store {
 public:
  explicit RememberingStore(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  Status set(std::string_view key, std::string_view value, milliseconds time_to_live,
             Deadline deadline) override {
    remember(key, time_to_live);
    return store_->set(key, value, time_to_live, deadline);
  }
  Result<std::vector<std::optional<std::string>>> try_get(std::span<const std::string> keys,
                                                          Deadline deadline) override {
    return store_->try_get(keys, deadline);
  }
  Result<int64_t> add(std::string_view key, int64_t amount, milliseconds time_to_live,
                      Deadline deadline) override {
    remember(key, time_to_live);
    return store_->add(key, amount, time_to_live, deadline);
  }
  Result<bool> erase(std::string_view key, Deadline deadline) override {
    return store_->erase(key, deadline);
  }
  std::string wrong() {
    MutexLock lock(mutex_);
    return count_ == 0 ? "no keys at all" : wrong_;
  }

 private:
  void remember(std::string_view key, milliseconds time_to_live) {
    MutexLock lock(mutex_);
    ++count_;
    const bool is_named = key.starts_with("ashlar/1/job/world/");
    if (!is_named || time_to_live.count() <= 0)
      wrong_ = "a key without name or end: " + std::string(key);
  }

  const std::shared_ptr<Store> store_;
  Mutex mutex_;
  int count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  std::string wrong_ ASHLAR_GUARDED_BY(mutex_);
};

TEST(SymmetricMemory, Row21KeysAreVersionedAndNamespacedAndExpireAndAreDeleted) {
  Ranks ranks(3, [](const BareRank& rank) -> std::string {
    const auto store = std::make_shared<RememberingStore>(rank.store);
    {
      SymmetricRank own({rank.rank, rank.world_size, store}, kBytes);
      own.group.leave(kPatience);
    }
    return store->wrong();
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
  EXPECT_THAT(ranks.left_in_store(), IsEmpty());
}

}  // namespace
}  // namespace ashlar::symm
