// Blocks that were freed a moment ago.
#include "engine/paged/quick_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

namespace ashlar::paged {
namespace {

PagedBlock block_of(size_t bytes) {
  PagedBlock block;
  block.bytes = bytes;
  return block;
}

TEST(QuickListsTest, ABlockServesARequestOfItsVerySize) {
  QuickLists quick;
  PagedBlock block = block_of(1024);
  ASSERT_TRUE(quick.put(&block));
  EXPECT_EQ(block.state, BlockState::kQuick);
  EXPECT_EQ(quick.take(512), nullptr);
  EXPECT_EQ(quick.take(1536), nullptr);
  EXPECT_EQ(quick.take(1024), &block);
  EXPECT_EQ(quick.take(1024), nullptr);
}

TEST(QuickListsTest, TheLastOneFreedIsTheFirstOneTaken) {
  QuickLists quick;
  PagedBlock first = block_of(1024);
  PagedBlock second = block_of(1024);
  ASSERT_TRUE(quick.put(&first));
  ASSERT_TRUE(quick.put(&second));
  EXPECT_EQ(quick.take(1024), &second);
  EXPECT_EQ(quick.take(1024), &first);
}

TEST(QuickListsTest, SizesThatShareAListAreNeverMixedUp) {
  QuickLists quick;
  std::array<PagedBlock, 500> blocks;
  std::set<PagedBlock*> kept;
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].bytes = 512 * (i + 1);
    if (quick.put(&blocks[i])) kept.insert(&blocks[i]);
    EXPECT_EQ(blocks[i].state == BlockState::kQuick, kept.contains(&blocks[i]));
  }
  EXPECT_LT(kept.size(), blocks.size()) << "nothing shares a list here";
  for (PagedBlock& block : blocks) {
    EXPECT_EQ(quick.take(block.bytes), kept.contains(&block) ? &block : nullptr);
  }
}

TEST(QuickListsTest, FlushingHandsOverEachBlockOnce) {
  QuickLists quick;
  std::array<PagedBlock, 30> blocks;
  std::set<PagedBlock*> kept;
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].bytes = 512 * (1 + i % 3);
    if (quick.put(&blocks[i])) kept.insert(&blocks[i]);
  }
  std::set<PagedBlock*> flushed;
  quick.flush([&](PagedBlock* block) {
    EXPECT_EQ(block->state, BlockState::kFree);
    EXPECT_TRUE(flushed.insert(block).second);
  });
  EXPECT_EQ(flushed, kept);
  for (const size_t bytes : {512, 1024, 1536}) EXPECT_EQ(quick.take(bytes), nullptr);
  quick.flush([](PagedBlock*) { FAIL() << "something was left"; });
}

}  // namespace
}  // namespace ashlar::paged
