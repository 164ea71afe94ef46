// SPDX-License-Identifier: Apache-2.0
//
// Tests of the free lists of recently freed blocks.
#include "engine/paged/pool/quick_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "base/units.h"

namespace ashlar::paged {
namespace {

PagedBlock block_of(size_t bytes) {
  PagedBlock block;
  block.bytes = bytes;
  block.is_small = bytes <= kSmallLimitBytes;
  return block;
}

TEST(QuickListsTest, ServesRequestOfSameSize) {
  QuickLists quick;
  PagedBlock block = block_of(1024);
  ASSERT_TRUE(quick.put(&block));
  EXPECT_EQ(block.state, BlockState::kQuick);
  EXPECT_EQ(quick.take(512), nullptr);
  EXPECT_EQ(quick.take(1536), nullptr);
  EXPECT_EQ(quick.take(1024), &block);
  EXPECT_EQ(quick.take(1024), nullptr);
}

TEST(QuickListsTest, TakesLastFreedFirst) {
  QuickLists quick;
  PagedBlock first = block_of(1024);
  PagedBlock second = block_of(1024);
  ASSERT_TRUE(quick.put(&first));
  ASSERT_TRUE(quick.put(&second));
  EXPECT_EQ(quick.take(1024), &second);
  EXPECT_EQ(quick.take(1024), &first);
}

TEST(QuickListsTest, KeepsSizesOfSharedListApart) {
  QuickLists quick;
  std::array<PagedBlock, 500> blocks;
  std::set<PagedBlock*> kept;
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].bytes = kMiB + 512 * (i + 1);
    if (quick.put(&blocks[i])) kept.insert(&blocks[i]);
    EXPECT_EQ(blocks[i].state == BlockState::kQuick, kept.contains(&blocks[i]));
  }
  EXPECT_LT(kept.size(), blocks.size()) << "no sizes share a list";
  for (PagedBlock& block : blocks) {
    EXPECT_EQ(quick.take(block.bytes), kept.contains(&block) ? &block : nullptr);
  }
}

TEST(QuickListsTest, RoundsRequestUpToBlockSize) {
  QuickLists quick;
  for (const size_t bytes : {512 * size_t{1}, 17 * kKiB, kMiB, kMiB + 512, 64 * kMiB}) {
    PagedBlock block = block_of(bytes);
    ASSERT_TRUE(quick.put(&block));
    EXPECT_EQ(quick.head_for(bytes - 511), &block);
    EXPECT_EQ(quick.head_for(bytes + 1), nullptr);
    EXPECT_EQ(quick.take(bytes - 1), &block);
  }
}

TEST(QuickListsTest, SmallRequestUsesNextTwoSizes) {
  QuickLists quick;
  PagedBlock larger = block_of(18 * kKiB);
  PagedBlock largest = block_of(19 * kKiB);
  ASSERT_TRUE(quick.put(&larger));
  ASSERT_TRUE(quick.put(&largest));
  EXPECT_EQ(quick.head_for(16 * kKiB), nullptr) << "up to 16 KiB every size is exact";
  EXPECT_EQ(quick.take(17 * kKiB), &larger);
  EXPECT_EQ(quick.take(17 * kKiB), &largest);
  EXPECT_EQ(quick.take(17 * kKiB), nullptr);
  ASSERT_TRUE(quick.put(&largest));
  EXPECT_EQ(quick.take(16 * kKiB + 1), &largest);
  ASSERT_TRUE(quick.put(&largest));
  EXPECT_EQ(quick.take(20 * kKiB), nullptr) << "a smaller one";
}

TEST(QuickListsTest, LargeBlockServesNoSmallRequest) {
  QuickLists quick;
  std::array<PagedBlock, 500> large;
  for (size_t i = 0; i < large.size(); ++i) {
    large[i].bytes = kMiB + 512 * (i + 1);
    (void)quick.put(&large[i]);
  }
  for (size_t bytes = kMiB / 2; bytes <= kMiB; bytes += 512) {
    EXPECT_EQ(quick.head_for(bytes), nullptr);
  }
  PagedBlock small = block_of(kMiB);
  ASSERT_TRUE(quick.put(&small));
  EXPECT_EQ(quick.head_for(kMiB - 64 * kKiB + 1), &small);
  EXPECT_EQ(quick.head_for(kMiB - 64 * kKiB), &small) << "two sizes less";
  EXPECT_EQ(quick.head_for(kMiB - 96 * kKiB), nullptr);
}

// A block whose size lies between two classes would be smaller than some of the requests that its
// list serves, so it is rejected.
TEST(QuickListsTest, RejectsBlockOfUnusualSize) {
  QuickLists quick;
  PagedBlock odd = block_of(16 * kKiB + 512);
  EXPECT_FALSE(quick.put(&odd));
  EXPECT_EQ(quick.head_for(17 * kKiB), nullptr);
  PagedBlock even = block_of(17 * kKiB);
  EXPECT_TRUE(quick.put(&even));
  EXPECT_FALSE(quick.put(&odd));
  EXPECT_EQ(quick.head_for(17 * kKiB), &even);
}

// With no_split, the view of a small block may consist of one large block.
TEST(QuickListsTest, RejectsLargeBlockOfViewForSmallBlocks) {
  QuickLists quick;
  PagedBlock block = block_of(2 * kMiB);
  ASSERT_TRUE(quick.put(&block));
  PagedBlock whole_view = block_of(2 * kMiB);
  whole_view.is_small = true;
  EXPECT_FALSE(quick.put(&whole_view));
}

// The fast path searches the lists before it checks the size of the request, so a search must
// accept any size.
TEST(QuickListsTest, ImpossibleSizesFindNothing) {
  QuickLists quick;
  std::vector<PagedBlock> blocks;
  for (size_t bytes = 512; bytes <= 2 * kMiB; bytes += 512) blocks.push_back(block_of(bytes));
  for (PagedBlock& block : blocks) (void)quick.put(&block);
  for (const size_t bytes : {size_t{0}, SIZE_MAX, SIZE_MAX - 510, kRequestLimitBytes}) {
    EXPECT_EQ(quick.head_for(bytes), nullptr) << bytes;
  }
}

TEST(QuickListsTest, FlushVisitsEachBlockOfSizeClassOnce) {
  QuickLists quick;
  std::array<PagedBlock, 30> blocks;
  std::set<PagedBlock*> kept;
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].bytes = 512 * (1 + i % 3);
    blocks[i].is_small = true;
    if (quick.put(&blocks[i])) kept.insert(&blocks[i]);
  }
  std::set<PagedBlock*> flushed;
  PagedBlock large = block_of(2 * kMiB);
  ASSERT_TRUE(quick.put(&large));
  quick.flush(true, [&](PagedBlock* block) {
    EXPECT_EQ(block->state, BlockState::kFree);
    EXPECT_TRUE(flushed.insert(block).second);
  });
  EXPECT_EQ(flushed, kept);
  for (const size_t bytes : {512, 1024, 1536}) EXPECT_EQ(quick.take(bytes), nullptr);
  quick.flush(true, [](PagedBlock*) { FAIL() << "a block was left"; });
  quick.flush(false, [&](PagedBlock* block) { EXPECT_EQ(block, &large); });
  EXPECT_EQ(quick.take(2 * kMiB), nullptr);
}

}  // namespace
}  // namespace ashlar::paged
