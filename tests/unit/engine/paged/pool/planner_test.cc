// SPDX-License-Identifier: Apache-2.0
//
// Tests plans for hand-made pools, without a device or an engine.
#include "engine/paged/pool/planner.h"

#include "unit/engine/paged/pool/hand_made_pool.h"

namespace ashlar::paged {
namespace {

class PlannerTest : public ::testing::Test {
 protected:
  PlanRequest request(size_t bytes) { return {made_.pool, own_, bytes, false, kGiB}; }
  Plan plan(size_t bytes) { return planner_.plan(request(bytes)); }

  HandMadePool made_;
  Arena& own_ = made_.add_arena(StreamId(1));
  Arena& other_ = made_.add_arena(StreamId(2));
  ExtentSizing sizing_{PagedPolicy::kBalanced, HandMadePool::kGranuleBytes, false};
  Planner planner_{sizing_, PagedPolicy::kBalanced};
};

TEST_F(PlannerTest, EmptyPoolGetsANewView) {
  const Plan found = plan(5 * kMiB);
  EXPECT_TRUE(found.exists);
  EXPECT_EQ(found.view, nullptr);
  EXPECT_TRUE(found.pieces.empty());
  EXPECT_EQ(found.new_bytes, 6 * kMiB) << "whole granules";
}

TEST_F(PlannerTest, UsesMemoryInPlaceWithoutDriverCalls) {
  View& view = made_.add_view(own_, {8 * kMiB, 8 * kMiB});
  const Plan found = plan(16 * kMiB);
  EXPECT_EQ(found.view, &view);
  EXPECT_EQ(found.from, view.first);
  EXPECT_EQ(found.offset, 0U);
  EXPECT_TRUE(found.pieces.empty());
  EXPECT_EQ(found.new_bytes, 0U);
}

TEST_F(PlannerTest, UsesOldMappingsOfIdleExtents) {
  View& home = made_.add_view(own_, {8 * kMiB});
  View& old = made_.add_view(own_, {8 * kMiB});
  made_.map(*home.slots[0].extent, old);
  own_.fill_reserve(Arena::kBlocksPerPlacement);
  own_.add_detached(own_.insert_block(old, {old.at(8 * kMiB), 8 * kMiB}, nullptr));
  const Plan found = plan(16 * kMiB);
  EXPECT_EQ(found.view, &old) << "its second extent is idle in the other view";
  EXPECT_TRUE(found.pieces.empty());
  EXPECT_EQ(found.new_bytes, 0U);
}

TEST_F(PlannerTest, MapsIdleExtentsFromHoles) {
  View& view = made_.add_view(own_, {8 * kMiB, 8 * kMiB, 8 * kMiB});
  HandMadePool::allocate(own_, 8 * kMiB);
  PagedBlock* middle = HandMadePool::allocate(own_, 8 * kMiB);
  own_.put(view.first == middle ? middle->next : view.first);
  own_.flush();
  view.reserved.bytes = view.mapped_bytes;  // no addresses to grow into
  const Plan found = plan(16 * kMiB);
  EXPECT_EQ(found.view, nullptr);
  EXPECT_EQ(found.pieces.size(), 2U);
  EXPECT_EQ(found.new_bytes, 0U);
}

TEST_F(PlannerTest, TakesOnlyMissingBytesAsNewMemory) {
  made_.add_view(own_, {8 * kMiB});
  const Plan found = plan(20 * kMiB);
  EXPECT_EQ(found.view, made_.pool.views[0].get()) << "grows the free end of the view";
  EXPECT_EQ(found.offset, 0U);
  EXPECT_EQ(found.new_bytes, 12 * kMiB);
}

TEST_F(PlannerTest, IgnoresArenasThatDoNotLend) {
  made_.add_view(other_, {32 * kMiB});
  other_.is_lending = false;
  const Plan found = plan(32 * kMiB);
  EXPECT_EQ(found.view, nullptr);
  EXPECT_EQ(found.new_bytes, 32 * kMiB);
}

TEST_F(PlannerTest, PrefersOwnMemoryToBorrowedMemory) {
  made_.add_view(other_, {32 * kMiB});
  View& own = made_.add_view(own_, {32 * kMiB});
  EXPECT_EQ(plan(32 * kMiB).view, &own);
}

TEST_F(PlannerTest, DoesNotTakeOverViewsInUse) {
  View& view = made_.add_view(other_, {32 * kMiB, 32 * kMiB});
  HandMadePool::allocate(other_, 32 * kMiB);
  const Plan found = plan(32 * kMiB);
  EXPECT_NE(found.view, &view);
  EXPECT_EQ(found.pieces.size(), 1U) << "the idle extent is mapped elsewhere";
}

TEST_F(PlannerTest, NeverRemapPoolTakesNewMemory) {
  HandMadePool never{{.never_remap = true}};
  Arena& arena = never.add_arena(StreamId(1));
  View& view = never.add_view(arena, {8 * kMiB, 8 * kMiB, 8 * kMiB});
  PagedBlock* kept = HandMadePool::allocate(arena, 8 * kMiB);
  view.reserved.bytes = view.mapped_bytes;
  const Plan found = planner_.plan({never.pool, arena, 24 * kMiB, false, kGiB});
  EXPECT_TRUE(found.pieces.empty());
  EXPECT_EQ(found.new_bytes, 24 * kMiB);
  arena.put(kept);
}

TEST_F(PlannerTest, NewMemoryGoesToTheLargestView) {
  made_.add_view(own_, {8 * kMiB});
  View& largest = made_.add_view(own_, {8 * kMiB, 8 * kMiB});
  const Plan found = planner_.plan_new_memory(request(64 * kMiB), 64 * kMiB);
  EXPECT_EQ(found.view, &largest);
  EXPECT_EQ(found.offset, 16 * kMiB);
  EXPECT_EQ(found.from, nullptr);
}

TEST_F(PlannerTest, ChangesNeitherBlocksNorExtents) {
  const View& view = made_.add_view(own_, {8 * kMiB, 8 * kMiB});
  made_.add_view(other_, {16 * kMiB});
  for (const size_t bytes : {4 * kMiB, 16 * kMiB, 40 * kMiB}) plan(bytes);
  EXPECT_EQ(view.first, view.last);
  EXPECT_TRUE(view.first->is_in_ranges());
  EXPECT_EQ(view.attached_count, 2U);
  for (const auto& extent : made_.pool.extents) EXPECT_NE(extent->attached_view, nullptr);
}

TEST_F(PlannerTest, ChargesItsSearchToTheBudget) {
  made_.add_view(own_, std::vector<size_t>(256, 2 * kMiB));
  EXPECT_FALSE(made_.pool.budget.is_planning_scarce());
  for (int i = 0; i < 10'000 && !made_.pool.budget.is_planning_scarce(); ++i) plan(kGiB);
  EXPECT_TRUE(made_.pool.budget.is_planning_scarce());
}

}  // namespace
}  // namespace ashlar::paged
