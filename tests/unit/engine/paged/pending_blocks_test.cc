// SPDX-License-Identifier: Apache-2.0
//
// Tests of deferred frees and of the polling interval.
#include "engine/paged/pending_blocks.h"

#include "unit/engine/paged/components_fixture.h"

namespace ashlar::paged {
namespace {

class PendingBlocksTest : public ComponentsFixture {
 protected:
  // Returns a block that is freed while `user` may still use it.
  PagedBlock* free_while_used(StreamId user) ASHLAR_REQUIRES(engine_lock) {
    View& view = create_view(create({4 * kMiB}));
    BiasedLock lock(view.arena->lock);
    PagedBlock* block = view.first;
    view.arena->erase_free(block);
    SubArena& sub = view.arena->sub_arena(false);
    Arena::mark_allocated(sub, block, block->bytes, {});
    block->state = BlockState::kPending;
    sub.counters.total_freed.add(amount_of(*block));
    sub.counters.pending.add(amount_of(*block));
    block->uses = {{&device(), user}};
    return block;
  }
  void clean_up(PagedBlock* block) ASHLAR_REQUIRES(engine_lock) {
    {
      BiasedLock lock(block->arena->lock);
      block->arena->flush();
    }
    release(*block->view);
    components_->streams.destroy_events();
  }
};

TEST_F(PendingBlocksTest, CollectsBlocksWhoseStreamsAreDone) {
  EngineLock lock(components_->mutex);
  const StreamId user = busy_stream();
  PagedBlock* block = free_while_used(user);
  must(components_->pending.add(block));
  must(components_->pending.collect());
  EXPECT_EQ(block->state, BlockState::kPending);
  finish(user);
  must(components_->pending.collect());
  EXPECT_TRUE(block->is_free());
  clean_up(block);
}

TEST_F(PendingBlocksTest, PollsAtGrowingIntervals) {
  EngineLock lock(components_->mutex);
  const StreamId user = busy_stream();
  PagedBlock* block = free_while_used(user);
  must(components_->pending.add(block));
  EXPECT_FALSE(components_->pending.count_hit_and_check_poll()) << "not published yet";
  components_->pending.publish();
  const auto hits_before_poll = [&]() ASHLAR_REQUIRES(engine_lock) {
    must(components_->pending.poll(kDefaultStream));
    int hits = 0;
    while (!components_->pending.count_hit_and_check_poll()) ++hits;
    return hits;
  };
  int last = hits_before_poll();
  for (int i = 0; i < 12; ++i) {
    const int hits = hits_before_poll();
    EXPECT_GE(hits, last);
    last = hits;
  }
  EXPECT_EQ(last, 32);
  finish(user);
  EXPECT_EQ(hits_before_poll(), 0) << "a poll that finds a block resets the interval";
  components_->pending.publish();
  EXPECT_FALSE(components_->pending.count_hit_and_check_poll());
  clean_up(block);
}

TEST_F(PendingBlocksTest, WaitsForOnePoolOnly) {
  EngineLock lock(components_->mutex);
  const StreamId user = busy_stream();
  PagedBlock* block = free_while_used(user);
  must(components_->pending.add(block));
  must(components_->pending.wait(PoolId{0, 9}));
  EXPECT_EQ(block->state, BlockState::kPending) << "it belongs to another pool";
  must(machine_->resume_stream(kDevice, user));
  must(components_->pending.wait({}));
  EXPECT_TRUE(block->is_free());
  clean_up(block);
}

}  // namespace
}  // namespace ashlar::paged
