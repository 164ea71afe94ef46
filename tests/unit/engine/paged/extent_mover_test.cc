// SPDX-License-Identifier: Apache-2.0
//
// Tests moving extents between views of hand-made pools, without a device.
#include "engine/paged/extent_mover.h"

#include "unit/engine/paged/pool/hand_made_pool.h"

namespace ashlar::paged {
namespace {

class ExtentMoverTest : public ::testing::Test {
 protected:
  void scan() {
    mark_idle_extents(made_.pool, made_.pool.candidates.arenas(), &own_,
                      HandMadePool::kGranuleBytes);
  }
  // Adds a view in which the extents of `view` are mapped a second time, but not attached.
  View& add_alias(const View& view) {
    View& alias = made_.add_view(own_, {});
    for (const Slot& slot : view.slots) made_.map(*slot.extent, alias);
    HandMadePool::reserve_for(alias);
    own_.add_detached(own_.insert_block(alias, {alias.at(0), alias.mapped_bytes}, nullptr));
    return alias;
  }
  static std::vector<Arena*> room_for_lenders() {
    std::vector<Arena*> lenders;
    lenders.reserve(10);
    return lenders;
  }

  HandMadePool made_;
  Arena& own_ = made_.add_arena(StreamId(1));
  Arena& other_ = made_.add_arena(StreamId(2));
  History history_;
  RequestTracer tracer_{history_, DeviceIndex(0)};
  ExtentMover mover_{PagedPolicy::kBalanced, tracer_};
  EngineMutex mutex_;
};

TEST_F(ExtentMoverTest, DetachIdleSplitsTheFreeBlock) {
  EngineLock lock(mutex_);
  View& view = made_.add_view(own_, {4 * kMiB, 4 * kMiB, 4 * kMiB});
  scan();
  Extent& middle = *view.slots[1].extent;
  mover_.detach_idle(middle);
  EXPECT_EQ(middle.attached_view, nullptr);
  EXPECT_EQ(view.attached_count, 2U);
  ASSERT_NE(view.slots[1].detached_block, nullptr);
  EXPECT_TRUE(view.slots[1].detached_block->is_detached());
  EXPECT_TRUE(view.first->is_in_ranges() && view.last->is_in_ranges());
}

// If the smaller remainder kept the block, detaching all extents of a block one after another would
// take quadratic time.
TEST_F(ExtentMoverTest, DetachIdleKeepsTheBlockOfTheLargerRemainder) {
  EngineLock lock(mutex_);
  const View& view = made_.add_view(own_, std::vector<size_t>(9, 4 * kMiB));
  scan();
  const PagedBlock* const whole = view.first;
  mover_.detach_idle(*view.slots[2].extent);
  EXPECT_EQ(view.last, whole);
  mover_.detach_idle(*view.slots[7].extent);
  EXPECT_EQ(made_.pool.idle.block_of(view.slots[3].extent->number()), whole);
}

TEST_F(ExtentMoverTest, DetachIdleWorksInAnyOrder) {
  EngineLock lock(mutex_);
  const std::vector<std::vector<size_t>> orders = {
      {0, 1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1, 0}, {3, 1, 5, 0, 2, 6, 4}, {1, 6, 0, 5, 3, 4, 2}};
  for (const std::vector<size_t>& order : orders) {
    const View& view = made_.add_view(own_, std::vector<size_t>(order.size(), 4 * kMiB));
    scan();
    for (const size_t slot : order) {
      mover_.detach_idle(*view.slots[slot].extent);
      for (size_t i = 0; i < view.slots.size(); ++i) {
        const Extent& extent = *view.slots[i].extent;
        if (extent.attached_view == nullptr) continue;
        const PagedBlock* block = made_.pool.idle.block_of(extent.number());
        const size_t begin = view.offset_of(*block);
        EXPECT_TRUE(block->is_in_ranges());
        EXPECT_LE(begin, view.slots[i].offset);
        EXPECT_GE(begin + block->bytes, view.slots[i].end());
      }
    }
    EXPECT_EQ(view.attached_count, 0U);
  }
}

TEST_F(ExtentMoverTest, TakeRangeAttachesExtentsOfOtherViews) {
  EngineLock lock(mutex_);
  const View& view = made_.add_view(own_, {4 * kMiB, 4 * kMiB});
  View& alias = add_alias(view);
  scan();
  std::vector<Arena*> lenders = room_for_lenders();
  PagedBlock* taken = mover_.take_range(alias, alias.first, {alias.at(0), 6 * kMiB}, lenders);
  EXPECT_EQ(taken->bytes, 8 * kMiB) << "whole slots";
  EXPECT_EQ(taken->state, BlockState::kPending);
  EXPECT_EQ(alias.attached_count, 2U);
  EXPECT_EQ(view.attached_count, 0U);
  EXPECT_TRUE(lenders.empty()) << "its own memory needs no order";
}

TEST_F(ExtentMoverTest, TakeRangeNamesTheLenders) {
  EngineLock lock(mutex_);
  const View& view = made_.add_view(other_, {4 * kMiB});
  View& alias = add_alias(view);
  scan();
  std::vector<Arena*> lenders = room_for_lenders();
  mover_.take_range(alias, alias.first, {alias.at(0), 4 * kMiB}, lenders);
  EXPECT_EQ(lenders, std::vector<Arena*>{&other_});
}

TEST_F(ExtentMoverTest, ReturnRangeLeavesWholeExtentsDetached) {
  EngineLock lock(mutex_);
  const View& view = made_.add_view(own_, {4 * kMiB, 4 * kMiB});
  View& alias = add_alias(view);
  scan();
  std::vector<Arena*> lenders = room_for_lenders();
  mover_.return_range(mover_.take_range(alias, alias.first, {alias.at(0), 8 * kMiB}, lenders));
  EXPECT_EQ(alias.attached_count, 0U);
  for (const auto& extent : made_.pool.extents) EXPECT_EQ(extent->attached_view, nullptr);
  EXPECT_TRUE(alias.first->is_detached() && alias.last->is_detached());
}

TEST_F(ExtentMoverTest, DisplacedExtentsReturnToTheirOrigin) {
  EngineLock lock(mutex_);
  const View& view = made_.add_view(own_, {4 * kMiB, 4 * kMiB});
  View& alias = add_alias(view);
  scan();
  std::vector<Arena*> lenders = room_for_lenders();
  PagedBlock* taken = mover_.take_range(alias, alias.first, {alias.at(0), 8 * kMiB}, lenders);
  EXPECT_EQ(alias.displaced_count, 2U);
  own_.add_free(taken);
  EXPECT_TRUE(alias.return_queue.is_queued);
  mover_.return_displaced(own_);
  EXPECT_TRUE(own_.return_queue.empty());
  EXPECT_EQ(alias.displaced_count, 0U);
  EXPECT_EQ(view.attached_count, 2U);
  EXPECT_EQ(view.first, view.last) << "contiguous again";
}

TEST_F(ExtentMoverTest, MoveViewDetachesEverything) {
  EngineLock lock(mutex_);
  View& view = made_.add_view(other_, {4 * kMiB, 4 * kMiB});
  own_.fill_reserve(Arena::kBlocksPerSlot * view.slots.size());
  own_.reserve_ranges(view.is_small, view.mapped_bytes);
  mover_.move_view(view, own_);
  EXPECT_EQ(view.arena, &own_);
  EXPECT_EQ(view.attached_count, 0U);
  for (const PagedBlock* block = view.first; block != nullptr; block = block->next) {
    EXPECT_TRUE(block->is_detached());
    EXPECT_EQ(block->stream, own_.stream);
  }
}

}  // namespace
}  // namespace ashlar::paged
