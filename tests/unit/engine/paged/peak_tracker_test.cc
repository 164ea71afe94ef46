// SPDX-License-Identifier: Apache-2.0
//
// Tests that statistics are exact, although they are summed lazily.
#include "engine/paged/peak_tracker.h"

#include <array>
#include <map>

#include "base/align.h"
#include "base/random.h"
#include "paged_fixture.h"

namespace ashlar::paged {
namespace {

TEST(PeakLevelTest, DefaultAllowsNothing) { EXPECT_FALSE(PeakLevel{}.allows({1, 512, 1})); }

TEST(PeakLevelTest, ComparesEachNumberSeparately) {
  const PeakLevel level{2, 1024, 600};
  EXPECT_TRUE(level.allows({2, 1024, 600}));
  EXPECT_FALSE(level.allows({3, 1024, 600}));
  EXPECT_FALSE(level.allows({2, 1025, 600}));
  EXPECT_FALSE(level.allows({2, 1024, 601}));
}

TEST(CountersTest, ActiveIsAllocatedPlusPending) {
  Counters counters;
  counters.total_allocated.add({3, 4096, 4000});
  counters.total_freed.add({1, 2048, 2000});
  counters.pending.add({1, 512, 500});
  EXPECT_EQ(counters.active(), (Amount{3, 2560, 2500}));
  counters.reset_totals();
  EXPECT_EQ(counters.net(), Amount{});
  EXPECT_EQ(counters.allocated(), (Amount{2, 2048, 2000}));
  EXPECT_EQ(counters.allocated_at_reset, (Amount{2, 2048, 2000}));
  EXPECT_EQ(counters.active_at_reset, (Amount{3, 2560, 2500}));
}

class PeakTrackerTest : public PagedFixture {};

TEST_F(PeakTrackerTest, PeaksAreExactAcrossStreams) {
  start();
  std::array<StreamId, 4> streams{};
  for (StreamId& stream : streams) stream = new_stream();
  Random random(1);
  Stat count;
  Stat bytes;
  Stat requested;
  std::map<StreamId, Stat> by_stream;
  std::vector<Block*> live;
  for (int i = 0; i < 20'000; ++i) {
    if (live.size() < 2 || random.below(2) == 0) {
      const size_t wanted = 1 + (random.next() >> (64 - 9 - random.below(12)));
      const StreamId stream = streams[random.below(streams.size())];
      Block* block = allocate(wanted, stream);
      live.push_back(block);
      count.increase(1);
      bytes.increase(static_cast<int64_t>(block->bytes));
      by_stream[stream].increase(static_cast<int64_t>(block->bytes));
      requested.increase(static_cast<int64_t>(wanted));
    } else {
      std::swap(live[random.below(live.size())], live.back());
      Block* block = live.back();
      live.pop_back();
      count.decrease(1);
      bytes.decrease(static_cast<int64_t>(block->bytes));
      by_stream[block->stream].decrease(static_cast<int64_t>(block->bytes));
      requested.decrease(static_cast<int64_t>(block->requested_bytes));
      free(block);
    }
    if (i == 8000) {
      engine_->reset_peak_stats();
      for (Stat* stat : {&count, &bytes, &requested}) stat->reset_peak();
      for (auto& [stream, stat] : by_stream) stat.reset_peak();
    }
  }
  const AllocatorStats found = stats();
  EXPECT_EQ(found.allocation.all.peak, count.peak);
  EXPECT_EQ(found.allocation.all.current, count.current);
  EXPECT_EQ(found.allocated_bytes.all.peak, bytes.peak);
  EXPECT_EQ(found.allocated_bytes.all.increased, bytes.increased);
  EXPECT_EQ(found.allocated_bytes.all.decreased, bytes.decreased);
  EXPECT_EQ(found.requested_bytes.all.peak, requested.peak);
  for (const auto& [stream, stat] : by_stream) {
    EXPECT_EQ(found.streams.at(stream).allocated_bytes.peak, stat.peak);
    EXPECT_EQ(found.streams.at(stream).allocated_bytes.current, stat.current);
  }
}

TEST_F(PeakTrackerTest, PinnedFreedBlockCountsAsActive) {
  start();
  std::array<Block*, 8> blocks{};
  for (int i = 0; i < 5; ++i) {  // until the headroom covers eight blocks
    for (Block*& block : blocks) block = allocate(4096);
    for (Block* block : blocks) free(block);
  }
  Block* pinned = allocate(4096);
  engine_->pin(pinned);
  free(pinned);
  for (Block*& block : blocks) block = allocate(4096);
  for (Block* block : blocks) free(block);
  EXPECT_EQ(stats().active.all.peak, 9);
  EXPECT_EQ(stats().active_bytes.all.peak, 9 * 4096);
  EXPECT_EQ(stats().allocation.all.peak, 8);
  engine_->unpin(pinned);
}

// The larger request reuses the same block, so only the requested bytes rise.
TEST_F(PeakTrackerTest, LargerRequestForSameBlockRaisesRequestedPeak) {
  start();
  allocate(1024);
  for (int i = 0; i < 200; ++i) free(allocate(1));  // until the lock is biased
  free(allocate(512));
  free(allocate(1));
  EXPECT_EQ(stats().requested_bytes.all.peak, 1024 + 512);
}

TEST_F(PeakTrackerTest, ResetTotalsStartFromZero) {
  start();
  Block* first = allocate(4096);
  engine_->reset_total_stats();
  allocate(1024);
  free(first);
  const AllocatorStats found = stats();
  EXPECT_EQ(found.allocated_bytes.all.increased, 1024);
  EXPECT_EQ(found.allocated_bytes.all.decreased, 4096);
  EXPECT_EQ(found.allocated_bytes.all.current, 1024);
}

TEST_F(PeakTrackerTest, KeepsTotalsOfDestroyedPools) {
  start();
  route(kPool);
  free(allocate(4 * kMiB));
  end_route(kPool);
  must(engine_->release_pool(kPool));
  must(engine_->trim());
  ASSERT_FALSE(engine_->pool_use_count(kPool).ok());
  const AllocatorStats found = stats();
  EXPECT_EQ(found.allocated_bytes.all.increased, static_cast<int64_t>(4 * kMiB));
  EXPECT_EQ(found.allocated_bytes.all.peak, static_cast<int64_t>(4 * kMiB));
  EXPECT_EQ(found.reserved_bytes.all.current, 0);
}

TEST_F(PeakTrackerTest, FreePartsOfUsedExtentsAreInactive) {
  start();
  Block* first = allocate(512);
  Block* between = allocate(512);
  Block* last = allocate(512);
  free(between);
  const AllocatorStats found = stats();
  EXPECT_EQ(found.inactive_split.all.current, 2) << "between the two blocks, and after them";
  EXPECT_EQ(found.inactive_split.small_pool.current, 2);
  EXPECT_EQ(found.inactive_split_bytes.all.current, static_cast<int64_t>(2 * kMiB - 1024));
  free(first);
  free(last);
  EXPECT_EQ(stats().inactive_split.all.current, 0);
  EXPECT_EQ(stats().inactive_split_bytes.all.current, 0);
  EXPECT_EQ(stats().inactive_split_bytes.all.peak, static_cast<int64_t>(2 * kMiB - 1024));
}

TEST_F(PeakTrackerTest, ReservedIsActiveInactiveOrTrimmable) {
  for (const bool on_plain_device : {false, true}) {
    on_plain_device ? start_on_plain_device() : start();
    Random random(5);
    std::vector<Block*> live;
    int64_t max_inactive = 0;
    for (int step = 0; step < 400; ++step) {
      if (live.size() > 30 || (!live.empty() && random.below(2) == 0)) {
        std::swap(live[random.below(live.size())], live.back());
        free(live.back());
        live.pop_back();
      } else {
        live.push_back(allocate(1 + random.below(step % 3 == 0 ? 20 * kMiB : 300'000)));
      }
      if (step % 40 != 39) continue;
      const AllocatorStats found = stats();
      const int64_t cached = found.reserved_bytes.all.current - found.active_bytes.all.current;
      const Result<size_t> released = engine_->trim_to({});
      ASSERT_TRUE(released.ok());
      EXPECT_EQ(cached - found.inactive_split_bytes.all.current, static_cast<int64_t>(*released));
      max_inactive = std::max(max_inactive, found.inactive_split_bytes.all.current);
    }
    EXPECT_GT(max_inactive, 0);
    for (Block* block : live) free(block);
    EXPECT_EQ(stats().inactive_split_bytes.all.current, 0);
    engine_.reset();
  }
}

}  // namespace
}  // namespace ashlar::paged
