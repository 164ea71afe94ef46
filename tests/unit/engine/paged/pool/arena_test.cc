// SPDX-License-Identifier: Apache-2.0
//
// Tests splitting and merging free ranges, on hand-made views.
#include "engine/paged/pool/arena.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "base/random.h"
#include "base/units.h"
#include "engine/paged/pool/paged_pool.h"

namespace ashlar::paged {
namespace {

constexpr double kAnyWaste = 1e9;

class ArenaTest : public ::testing::Test {
 protected:
  // Adds a view with extents of these sizes, all free.
  View& add_view(const std::vector<size_t>& extent_sizes, bool is_small = false) {
    auto view = std::make_unique<View>();
    view->reserved = {DeviceAddress((pool_.views.size() + 1) * kGiB), kGiB};
    view->arena = &arena_;
    view->is_small = is_small;
    for (const size_t bytes : extent_sizes) {
      pool_.extents.push_back(std::make_unique<Extent>());
      Extent* extent = pool_.extents.back().get();
      extent->bytes = bytes;
      extent->attached_view = view.get();
      extent->attached_slot = view->slots.size();
      view->add_slot({view->mapped_bytes, bytes, extent});
    }
    arena_.reserve_blocks(Arena::kBlocksPerSlot * view->slots.size());
    arena_.fill_reserve(Arena::kBlocksPerPlacement);
    arena_.reserve_ranges(is_small, view->mapped_bytes);
    arena_.add_free(
        arena_.insert_block(*view, {view->reserved.begin, view->mapped_bytes}, nullptr));
    pool_.views.push_back(std::move(view));
    return *pool_.views.back();
  }
  PagedBlock* take(size_t bytes, double max_waste = kAnyWaste) {
    PagedBlock* block = arena_.take(bytes, max_waste);
    if (block != nullptr) block->state = BlockState::kAllocated;
    return block;
  }
  static std::vector<size_t> sizes(const View& view) {
    std::vector<size_t> found;
    size_t offset = 0;
    for (const PagedBlock* block = view.first; block != nullptr; block = block->next) {
      EXPECT_EQ(view.offset_of(*block), offset) << "blocks do not tile their view";
      offset += block->bytes;
      found.push_back(block->bytes);
    }
    EXPECT_EQ(offset, view.mapped_bytes);
    return found;
  }

  PagedPool pool_{{}, {}, /*plain=*/false};
  BlockTable addresses_;
  Arena arena_{pool_, kDefaultStream, 1, addresses_};
};

TEST_F(ArenaTest, EmptyArenaReturnsNull) { EXPECT_EQ(take(512), nullptr); }

TEST_F(ArenaTest, SplitsRangeAndMergesItBack) {
  const View& view = add_view({8 * kMiB});
  PagedBlock* block = take(3 * kMiB);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->bytes, 3 * kMiB);
  EXPECT_EQ(sizes(view).size(), 2U);
  arena_.put(block);
  EXPECT_EQ(arena_.flush(), 1);
  EXPECT_EQ(arena_.flush(), 0);
  EXPECT_EQ(sizes(view), std::vector{8 * kMiB});
}

TEST_F(ArenaTest, MergesWithBothNeighbours) {
  const View& view = add_view({9 * kMiB});
  std::array<PagedBlock*, 3> blocks{};
  for (PagedBlock*& block : blocks) block = take(3 * kMiB);
  EXPECT_EQ(take(3 * kMiB), nullptr);
  for (PagedBlock* block = view.first; block != nullptr; block = block->next) {
    EXPECT_EQ(block->bytes, 3 * kMiB);
  }
  PagedBlock* middle = view.first->next;
  for (PagedBlock* block : blocks) {
    if (block != middle) arena_.add_free(block);
  }
  EXPECT_EQ(sizes(view).size(), 3U);
  arena_.add_free(middle);
  EXPECT_EQ(sizes(view), std::vector{9 * kMiB});
}

TEST_F(ArenaTest, ReusesFreedBlockOfSameSize) {
  add_view({8 * kMiB});
  PagedBlock* block = take(3 * kMiB);
  arena_.put(block);
  EXPECT_EQ(take(3 * kMiB), block);
}

TEST_F(ArenaTest, MergesFreedPiecesForLargerRequest) {
  const View& view = add_view({8 * kMiB});
  PagedBlock* first = take(4 * kMiB);
  PagedBlock* second = take(4 * kMiB);
  arena_.put(first);
  arena_.put(second);
  ASSERT_NE(take(8 * kMiB), nullptr);
  EXPECT_EQ(sizes(view), std::vector{8 * kMiB});
}

// Small blocks have few sizes, so a freed block is likely to fit a later request. It is therefore
// merged only if no other free block serves a request.
TEST_F(ArenaTest, MergesSmallBlocksOnlyIfNothingElseIsFree) {
  View& view = add_view({64 * kKiB}, true);
  PagedBlock* kept = take(16 * kKiB);
  PagedBlock* other = take(16 * kKiB);
  arena_.put(kept);
  arena_.put(other);
  EXPECT_NE(take(32 * kKiB), nullptr) << "split off the unused range";
  EXPECT_EQ(sizes(view), (std::vector<size_t>{16 * kKiB, 16 * kKiB, 32 * kKiB}));
  EXPECT_EQ(take(32 * kKiB), kept) << "both freed blocks, merged";
  EXPECT_EQ(sizes(view), (std::vector<size_t>{32 * kKiB, 32 * kKiB}));
}

TEST_F(ArenaTest, KeepsSmallAndLargeBlocksApart) {
  add_view({8 * kMiB});
  EXPECT_EQ(take(512), nullptr);
  const View& small = add_view({2 * kMiB}, /*is_small=*/true);
  ASSERT_NE(take(512), nullptr);
  EXPECT_EQ(sizes(small).size(), 2U);
}

TEST_F(ArenaTest, SkipsWastefulRangeUnlessAllowed) {
  add_view({64 * kMiB});
  EXPECT_EQ(take(2 * kMiB, 0.05), nullptr);
  EXPECT_NE(take(2 * kMiB), nullptr);
}

TEST_F(ArenaTest, AcceptsHoleInPartlyUsedExtent) {
  const View& view = add_view({16 * kMiB});
  PagedBlock* used = take(8 * kMiB);
  PagedBlock* beside = take(2 * kMiB, 0.0);
  ASSERT_NE(beside, nullptr);
  EXPECT_EQ(beside->view, used->view);
  EXPECT_EQ(sizes(view).size(), 3U);
}

TEST_F(ArenaTest, DetachedRangeHasOneBlockPerSlot) {
  const View& view = add_view({4 * kMiB, 4 * kMiB, 4 * kMiB});
  arena_.erase_free(view.first);
  view.first->state = BlockState::kPending;
  PagedBlock* second = arena_.split(view.first, 4 * kMiB);
  arena_.add_free(view.first);
  arena_.add_detached(second);
  EXPECT_EQ(sizes(view), (std::vector{4 * kMiB, 4 * kMiB, 4 * kMiB}));
  EXPECT_FALSE(view.first->is_detached());
  for (const size_t slot : {1, 2}) {
    const PagedBlock* detached = view.slots[slot].detached_block;
    ASSERT_TRUE(detached != nullptr && detached->is_detached());
    EXPECT_EQ(view.offset_of(*detached), slot * 4 * kMiB);
    EXPECT_EQ(&view.slot_of(*detached), &view.slots[slot]);
  }
}

TEST_F(ArenaTest, RandomOperationsKeepTheViewTiled) {
  const View& view = add_view({16 * kMiB, 32 * kMiB, 64 * kMiB});
  Random random(1);
  std::vector<PagedBlock*> taken;
  for (int i = 0; i < 3000; ++i) {
    if (random.below(2) == 0) {
      PagedBlock* block = take(kMiB + 512 * (1 + random.below(8000)));
      if (block != nullptr) taken.push_back(block);
    } else if (!taken.empty()) {
      std::swap(taken[random.below(taken.size())], taken.back());
      arena_.put(taken.back());
      taken.pop_back();
    }
    if (i % 20 == 0) sizes(view);
  }
  for (PagedBlock* block : taken) arena_.put(block);
  arena_.flush();
  EXPECT_EQ(sizes(view), std::vector{112 * kMiB});
}

TEST_F(ArenaTest, StrandedBytesExcludeTheBlockItself) {
  const View& view = add_view({4 * kMiB, 8 * kMiB, 2 * kMiB});
  const AddressRange all{view.reserved.begin, view.mapped_bytes};
  const auto mib = static_cast<int64_t>(kMiB);
  EXPECT_EQ(stranded_bytes(view, all, 4 * kMiB), (EndCosts{0, 6 * mib}));
  EXPECT_EQ(stranded_bytes(view, all, kMiB), (EndCosts{3 * mib, 1 * mib}));
  EXPECT_EQ(stranded_bytes(view, all, 5 * kMiB), (EndCosts{7 * mib, 5 * mib}));
  EXPECT_EQ(stranded_bytes(view, all, 14 * kMiB), (EndCosts{0, 0}));
}

TEST_F(ArenaTest, PartlyUsedExtentIsNotStrandedAgain) {
  const View& view = add_view({4 * kMiB, 8 * kMiB, 4 * kMiB});
  const AddressRange rest{view.reserved.begin + 2 * kMiB, view.mapped_bytes - 2 * kMiB};
  const auto mib = static_cast<int64_t>(kMiB);
  EXPECT_EQ(stranded_bytes(view, rest, 2 * kMiB), (EndCosts{-2 * mib, 2 * mib}));
  EXPECT_EQ(stranded_bytes(view, rest, 3 * kMiB), (EndCosts{5 * mib, mib}));
  const AddressRange inside{view.reserved.begin + kMiB, 9 * kMiB};
  EXPECT_EQ(stranded_bytes(view, inside, 9 * kMiB), (EndCosts{-9 * mib, -9 * mib}));
}

TEST_F(ArenaTest, PlainSegmentStrandsNothing) {
  View& view = add_view({8 * kMiB});
  view.is_plain = true;
  EXPECT_EQ(stranded_bytes(view, {view.reserved.begin, 8 * kMiB}, kMiB), EndCosts{});
}

}  // namespace
}  // namespace ashlar::paged
