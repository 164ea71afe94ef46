// SPDX-License-Identifier: Apache-2.0
//
// The keys that a group sets in its store: namespaced, expiring, and deleted when the group is
// left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/mutex.h"
#include "mp/harness/symmetric_rank.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;
using ::testing::Each;
using ::testing::IsEmpty;

constexpr size_t kStoredBytes = size_t{64} * 1024;

// Records whether all keys that were set are namespaced and have an expiry.
class RecordingStore : public Store {
 public:
  explicit RecordingStore(std::shared_ptr<Store> store) : store_(std::move(store)) {}
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
  std::string violation() {
    MutexLock lock(mutex_);
    return count_ == 0 ? "no keys were set" : violation_;
  }

 private:
  void remember(std::string_view key, milliseconds time_to_live) {
    MutexLock lock(mutex_);
    ++count_;
    const bool is_named = key.starts_with("ashlar/1/job/world/");
    if (!is_named || time_to_live.count() <= 0)
      violation_ = "a key without namespace or expiry: " + std::string(key);
  }

  const std::shared_ptr<Store> store_;
  Mutex mutex_;
  int count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  std::string violation_ ASHLAR_GUARDED_BY(mutex_);
};

TEST(SymmetricMemory, StoreKeysAreNamespacedAndExpire) {
  RankProcesses ranks(3, [](const RankSpec& rank) -> std::string {
    const auto store = std::make_shared<RecordingStore>(rank.store);
    {
      SymmetricRank own({rank.rank, rank.world_size, store}, kStoredBytes);
      own.group.leave(kTestTimeout);
    }
    return store->violation();
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
  EXPECT_THAT(ranks.store_keys(), IsEmpty());
}

}  // namespace
}  // namespace ashlar::symm
