// SPDX-License-Identifier: Apache-2.0
//
// Ranges of the symmetric heap: placement, alignment, resizing and coalescing.
#include "shmem/range_allocator.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace ashlar::shmem {
namespace {

TEST(RangeAllocator, AllocatesFirstFit) {
  RangeAllocator ranges(1024);
  EXPECT_EQ(ranges.allocate(100, 8), 0U);
  EXPECT_EQ(ranges.allocate(1, 8), 128U);
  EXPECT_EQ(ranges.allocate(64, 8), 192U);
  ranges.free(128);
  EXPECT_EQ(ranges.allocate(65, 8), 256U);
  EXPECT_EQ(ranges.allocate(64, 8), 128U);
  EXPECT_EQ(ranges.requested_bytes(0), 100U);
  EXPECT_EQ(ranges.requested_bytes(64), std::nullopt);
}

TEST(RangeAllocator, LeavesStateUnchangedWhenExhausted) {
  RangeAllocator ranges(1024);
  EXPECT_EQ(ranges.allocate(1025, 8), std::nullopt);
  EXPECT_EQ(ranges.allocate(~size_t{0}, 8), std::nullopt);
  EXPECT_EQ(ranges.allocate(1024, 8), 0U);
  EXPECT_EQ(ranges.allocate(1, 8), std::nullopt);
}

TEST(RangeAllocator, AlignsOffsets) {
  RangeAllocator ranges(20000);
  EXPECT_EQ(ranges.allocate(10, 64), 0U);
  EXPECT_EQ(ranges.allocate(10, 4096), 4096U);
  EXPECT_EQ(ranges.allocate(10, 16384), 16384U);
  EXPECT_EQ(ranges.allocate(10, 64), 64U);
  EXPECT_EQ(ranges.allocate(10, 32768), std::nullopt);
  EXPECT_EQ(ranges.allocate(10, size_t{1} << 63), std::nullopt);
}

TEST(RangeAllocator, ResizesInPlaceWithinAdjacentFreeRange) {
  RangeAllocator ranges(1024);
  EXPECT_EQ(ranges.allocate(1024, 8), 0U);
  EXPECT_TRUE(ranges.resize(0, 200));
  EXPECT_EQ(ranges.requested_bytes(0), 200U);
  EXPECT_EQ(ranges.allocate(64, 8), 256U);
  EXPECT_TRUE(ranges.resize(0, 256));
  EXPECT_FALSE(ranges.resize(0, 257));
  EXPECT_EQ(ranges.requested_bytes(0), 256U);
  ranges.free(256);
  EXPECT_TRUE(ranges.resize(0, 1000));
  EXPECT_FALSE(ranges.resize(0, 1025));
  EXPECT_FALSE(ranges.resize(0, ~size_t{0}));
  EXPECT_EQ(ranges.allocate(1, 8), std::nullopt);
  EXPECT_TRUE(ranges.resize(0, 1));
  ranges.free(0);
  EXPECT_EQ(ranges.allocate(1024, 8), 0U);
}

TEST(RangeAllocator, NeverOverlapsUnderRandomCalls) {
  constexpr size_t kBytes = 1 << 16;
  std::mt19937 random(7);
  RangeAllocator ranges(kBytes);
  std::vector<int> owner(kBytes, 0);
  std::vector<std::pair<size_t, size_t>> live;
  for (int turn = 1; turn < 20000; ++turn) {
    if (random() % 4 == 0 && !live.empty()) {
      auto& [at, bytes] = live[random() % live.size()];
      const size_t wanted = 1 + random() % 3000;
      if (!ranges.resize(at, wanted)) continue;
      const auto begin = owner.begin() + static_cast<std::ptrdiff_t>(at);
      for (size_t each = bytes; each < wanted; ++each) ASSERT_EQ(owner[at + each], 0);
      std::fill_n(begin, bytes, 0);
      std::fill_n(begin, wanted, turn);
      bytes = wanted;
    } else if (random() % 2 == 0) {
      const size_t bytes = 1 + random() % 3000;
      const std::optional<size_t> at = ranges.allocate(bytes, size_t{64} << random() % 4);
      if (!at) continue;
      ASSERT_LE(*at + bytes, kBytes);
      for (size_t each = *at; each < *at + bytes; ++each)
        ASSERT_EQ(std::exchange(owner[each], turn), 0);
      live.emplace_back(*at, bytes);
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      const auto [at, bytes] = live.back();
      ASSERT_EQ(ranges.requested_bytes(at), bytes);
      std::fill_n(owner.begin() + static_cast<std::ptrdiff_t>(at), bytes, 0);
      ranges.free(at);
      live.pop_back();
    }
  }
  for (const auto& [at, bytes] : live) ranges.free(at);
  EXPECT_EQ(ranges.allocate(kBytes, 64), 0U);
}

}  // namespace
}  // namespace ashlar::shmem
