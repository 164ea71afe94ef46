// SPDX-License-Identifier: Apache-2.0
//
// Tests of the best-fit search.
#include "host/pinned_cache.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/units.h"

namespace ashlar {
namespace {

class PinnedCacheTest : public ::testing::Test {
 protected:
  PinnedBlock* insert(size_t bytes, PinnedOrigin origin = PinnedOrigin::kAllocated) {
    PinnedBlock& block = blocks_.emplace_back();
    block.memory = {nullptr, bytes, origin};
    cache().insert(&block);
    return &block;
  }
  PinnedBlock* take(size_t bytes) { return cache().take(sizes().fit(bytes)); }

  const PinnedSizePolicy& sizes() {
    if (sizes_ == nullptr) sizes_ = std::make_unique<PinnedSizePolicy>(options_);
    return *sizes_;
  }
  PinnedCache& cache() {
    if (cache_ == nullptr) cache_ = std::make_unique<PinnedCache>(sizes());
    return *cache_;
  }

  AllocatorOptions options_;

 private:
  std::deque<PinnedBlock> blocks_;
  std::unique_ptr<PinnedSizePolicy> sizes_;
  std::unique_ptr<PinnedCache> cache_;
};

TEST_F(PinnedCacheTest, TakesTheSmallestFitInsertedLast) {
  insert(1280 * kKiB);
  PinnedBlock* first = insert(1152 * kKiB);
  PinnedBlock* second = insert(1152 * kKiB);
  EXPECT_EQ(take(kMiB + 1), second);
  EXPECT_EQ(take(kMiB + 1), first);
}

TEST_F(PinnedCacheTest, AcceptsBlocksUpToAQuarterLarger) {
  PinnedBlock* quarter = insert(1280 * kKiB);
  EXPECT_EQ(take(kMiB), quarter);
  insert(1280 * kKiB + 4 * kKiB);
  EXPECT_EQ(take(kMiB), nullptr);
  EXPECT_EQ(cache().block_count(), 1U);
}

TEST_F(PinnedCacheTest, SmallRequestMayWasteOnePage) {
  PinnedBlock* two_pages = insert(8 * kKiB);
  insert(12 * kKiB);
  EXPECT_EQ(take(4 * kKiB), two_pages);
  EXPECT_EQ(take(4 * kKiB), nullptr);
}

// As in PyTorch's issue 192722, the bucket of a request also contains unrounded blocks that are too
// small for the request.
TEST_F(PinnedCacheTest, SkipsTooSmallBlocksOfTheSameClass) {
  options_.pytorch_compatible = true;
  options_.pinned.max_round_bytes = 4 * kMiB;
  insert(5 * kMiB);
  EXPECT_EQ(take(6 * kMiB), nullptr);
  PinnedBlock* seven = insert(7 * kMiB);
  insert(8 * kMiB);
  EXPECT_EQ(take(6 * kMiB), seven);
}

TEST_F(PinnedCacheTest, KeepsPartsOfTheReserveSegment) {
  PinnedBlock* reserved = insert(kMiB, PinnedOrigin::kReserved);
  PinnedBlock* allocated = insert(kMiB);
  PinnedBlock* registered = insert(2 * kMiB, PinnedOrigin::kRegistered);
  PinnedBlockList taken;
  cache().take_releasable(taken);
  EXPECT_EQ(taken.pop_front(), allocated);
  EXPECT_EQ(taken.pop_front(), registered);
  EXPECT_TRUE(taken.empty());
  EXPECT_EQ(take(kMiB), reserved);
}

}  // namespace
}  // namespace ashlar
