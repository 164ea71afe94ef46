// SPDX-License-Identifier: Apache-2.0
//
// Tests the scan for idle extents.
#include "engine/paged/pool/idle_map.h"

#include <set>

#include "unit/engine/paged/pool/hand_made_pool.h"

namespace ashlar::paged {
namespace {

class IdleMapTest : public ::testing::Test {
 protected:
  int64_t scan(const std::set<const Arena*>& lenders) {
    for (Arena* arena : made_.pool.candidates.arenas()) arena->is_lending = lenders.contains(arena);
    return mark_idle_extents(made_.pool, made_.pool.candidates.arenas(), &own_,
                             HandMadePool::kGranuleBytes);
  }
  bool is_idle(const View& view, size_t slot) const {
    return made_.pool.idle.is_idle(view.slots[slot].extent->number());
  }

  HandMadePool made_;
  Arena& own_ = made_.add_arena(StreamId(1));
  Arena& other_ = made_.add_arena(StreamId(2));
};

TEST_F(IdleMapTest, FindsWholeExtentsInFreeBlocks) {
  const View& view = made_.add_view(own_, {4 * kMiB, 4 * kMiB, 4 * kMiB});
  HandMadePool::allocate(own_, 6 * kMiB);
  EXPECT_GT(scan({&own_}), 0);
  EXPECT_FALSE(is_idle(view, 0));
  EXPECT_FALSE(is_idle(view, 1)) << "it is partly used";
  EXPECT_TRUE(is_idle(view, 2));
  EXPECT_EQ(view.planning.idle_count, 1U);
  const IdleMap& idle = made_.pool.idle;
  EXPECT_EQ(idle.free_end_bytes(view.slots[1].extent->number()), 2 * kMiB);
  EXPECT_EQ(idle.block_of(view.slots[2].extent->number()), view.last);
}

TEST_F(IdleMapTest, MarksExtentsOfOtherArenasAsBorrowed) {
  const View& own = made_.add_view(own_, {4 * kMiB});
  const View& other = made_.add_view(other_, {4 * kMiB});
  scan({&own_, &other_});
  EXPECT_TRUE(is_idle(own, 0) && is_idle(other, 0));
  EXPECT_FALSE(made_.pool.idle.is_borrowed(own.slots[0].extent->number()));
  EXPECT_TRUE(made_.pool.idle.is_borrowed(other.slots[0].extent->number()));
}

TEST_F(IdleMapTest, IgnoresArenasThatDoNotLend) {
  const View& other = made_.add_view(other_, {4 * kMiB});
  scan({&own_});
  EXPECT_FALSE(is_idle(other, 0));
  scan({&other_});
  EXPECT_TRUE(is_idle(other, 0));
  scan({});
  EXPECT_FALSE(is_idle(other, 0)) << "each scan starts anew";
}

TEST_F(IdleMapTest, FindsDetachedExtentsUnlessTheyAreBeingReleased) {
  Extent& extent = made_.add_extent(own_, 4 * kMiB);
  scan({&own_});
  EXPECT_TRUE(made_.pool.idle.is_idle(extent.number()));
  EXPECT_EQ(made_.pool.idle.block_of(extent.number()), nullptr);
  extent.is_releasing = true;
  scan({&own_});
  EXPECT_FALSE(made_.pool.idle.is_idle(extent.number()));
}

TEST_F(IdleMapTest, ReplacesARemovedExtentByTheLast) {
  const View& view = made_.add_view(own_, {4 * kMiB, 4 * kMiB});
  Extent& removed = *made_.pool.extents[0];
  made_.pool.idle.set_attached_view(removed, 0);
  made_.pool.idle.replace_by_last(removed);
  EXPECT_TRUE(made_.pool.idle.is_attached_to(1, view)) << "the last one has number 1 now";
  EXPECT_TRUE(made_.pool.idle.detached().empty());
}

TEST_F(IdleMapTest, ListsDetachedExtentsUnderTheirNewNumbers) {
  made_.add_view(own_, {4 * kMiB, 4 * kMiB});
  Extent& removed = *made_.pool.extents[0];
  made_.add_extent(own_, 4 * kMiB);
  EXPECT_EQ(made_.pool.idle.detached(), std::vector<uint32_t>{3});
  made_.pool.idle.set_attached_view(removed, 0);
  EXPECT_EQ(made_.pool.idle.detached(), (std::vector<uint32_t>{3, 1}));
  made_.pool.idle.replace_by_last(removed);
  EXPECT_EQ(made_.pool.idle.detached(), std::vector<uint32_t>{1});
}

}  // namespace
}  // namespace ashlar::paged
