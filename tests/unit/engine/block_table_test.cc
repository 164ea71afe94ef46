// SPDX-License-Identifier: Apache-2.0
//
// Tests of BlockTable: single-threaded, against std::map, and concurrent.
#include "engine/block_table.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <thread>

#include "base/random.h"

namespace ashlar {
namespace {

Block* add(std::deque<Block>& blocks, uint64_t address) {
  Block& block = blocks.emplace_back();
  block.address = DeviceAddress(address);
  return &block;
}

TEST(BlockTable, FindsInsertedBlocksUntilRemoval) {
  BlockTable table;
  std::deque<Block> blocks;
  Block* block = add(blocks, 0x7000'0000'0200);
  EXPECT_EQ(table.find(block->address), nullptr);
  table.insert(block);
  EXPECT_TRUE(block->in_block_table);
  EXPECT_EQ(table.find(block->address), block);
  EXPECT_EQ(table.find(block->address + 512), nullptr);
  table.remove(block);
  EXPECT_FALSE(block->in_block_table);
  EXPECT_EQ(table.find(block->address), nullptr);
}

TEST(BlockTable, InsertIsIdempotent) {
  BlockTable table;
  std::deque<Block> blocks;
  Block* block = add(blocks, 0x200);
  table.insert(block);
  table.insert(block);
  table.remove(block);
  EXPECT_EQ(table.find(block->address), nullptr);
  table.remove(block);  // removing an absent block does nothing
}

// The test uses addresses without any alignment, as a custom source may return, and so many entries
// that the table grows several times.
TEST(BlockTable, AgreesWithStdMap) {
  BlockTable table;
  std::deque<Block> blocks;
  std::map<uint64_t, Block*> expected;
  std::vector<Block*> spare;
  Random random(7);
  for (int i = 0; i < 200'000; ++i) {
    const uint64_t address = 1 + random.below(i < 100'000 ? 100'000 : 1'000) * 257;
    EXPECT_EQ(table.find(DeviceAddress(address)),
              expected.contains(address) ? expected[address] : nullptr);
    if (auto known = expected.find(address); known != expected.end()) {
      table.remove(known->second);
      spare.push_back(known->second);
      expected.erase(known);
      continue;
    }
    if (spare.empty()) spare.push_back(add(blocks, 1));
    Block* block = spare.back();
    spare.pop_back();
    block->address = DeviceAddress(address);
    table.insert(block);
    expected[address] = block;
  }
  EXPECT_GT(expected.size(), 20'000U);
  for (const auto& [address, block] : expected) {
    EXPECT_EQ(table.find(DeviceAddress(address)), block);
  }
}

// The addresses of the threads alternate, so their entries can share cache lines. The table grows
// while all threads use it.
TEST(BlockTable, SupportsConcurrentInsertFindAndRemove) {
  BlockTable table;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uint64_t me = 0; me < 4; ++me) {
    threads.emplace_back([&, me] {
      std::deque<Block> blocks;
      std::vector<Block*> live;
      Random random(me);
      for (uint64_t i = 0; i < 20'000; ++i) {
        if (live.size() < 4'000 && random.below(3) != 0) {
          live.push_back(add(blocks, (i * 4 + me + 1) * 512));
          table.insert(live.back());
        } else if (!live.empty()) {
          std::swap(live[random.below(live.size())], live.back());
          if (table.find(live.back()->address) != live.back()) ++wrong;
          table.remove(live.back());
          if (table.find(live.back()->address) != nullptr) ++wrong;
          live.pop_back();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace ashlar
