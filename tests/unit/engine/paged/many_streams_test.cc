// SPDX-License-Identifier: Apache-2.0
//
// Programs with many streams: the slow paths visit few arenas, and statistics and reuse stay exact.
#include <map>
#include <utility>
#include <vector>

#include "base/random.h"
#include "paged_fixture.h"

namespace ashlar::paged {
namespace {

constexpr size_t kLargeBytes = 4 * kMiB;

class ManyStreams : public PagedFixture {
 protected:
  std::vector<StreamId> new_streams(size_t count) {
    std::vector<StreamId> streams;
    for (size_t i = 0; i < count; ++i) streams.push_back(new_stream());
    return streams;
  }
  // Allocates one block on each of `count` new streams. Returns how many arenas and views the
  // engine has visited.
  uint64_t visits_of_allocations(size_t count, size_t bytes) {
    const std::vector<StreamId> streams = new_streams(count);
    const uint64_t before = engine_->visited_arena_count();
    for (const StreamId stream : streams) allocate(bytes, stream);
    return engine_->visited_arena_count() - before;
  }
  int64_t reserved_bytes() { return stats().reserved_bytes.all.current; }
  void expect_valid() {
    const Status valid = engine_->validate();
    EXPECT_TRUE(valid.ok()) << valid.to_string();
  }
};

TEST_F(ManyStreams, CostOfAllocationDoesNotDependOnIdleStreams) {
  for (const size_t bytes : {size_t{512}, kLargeBytes}) {
    start({}, 16 * kGiB);
    constexpr size_t kCount = 100;
    (void)visits_of_allocations(kCount, bytes);
    const uint64_t with_few = visits_of_allocations(kCount, bytes);
    (void)visits_of_allocations(10 * kCount, bytes);
    const uint64_t with_many = visits_of_allocations(kCount, bytes);
    EXPECT_LE(with_many, 2 * with_few) << bytes;
    EXPECT_LE(with_many, 256 * kCount) << bytes;
    expect_valid();
    engine_.reset();
  }
}

TEST_F(ManyStreams, StatsVisitOnlyRecentlyUsedArenas) {
  start({}, 16 * kGiB);
  constexpr size_t kCount = 1000;
  (void)visits_of_allocations(kCount, 512);
  const uint64_t before = engine_->visited_arena_count();
  const AllocatorStats found = stats();
  EXPECT_LE(engine_->visited_arena_count() - before, 100U);
  EXPECT_EQ(found.allocation.all.current, static_cast<int64_t>(kCount));
  EXPECT_EQ(found.allocation.all.peak, static_cast<int64_t>(kCount));
  EXPECT_EQ(found.streams.size(), kCount);
}

TEST_F(ManyStreams, AllocationFromOneOfManyPoolsVisitsFewArenas) {
  start({}, 16 * kGiB);
  constexpr uint64_t kCount = 500;
  uint64_t before = 0;
  for (uint64_t i = 1; i <= kCount; ++i) {
    if (i == kCount - 99) before = engine_->visited_arena_count();
    const PoolId pool{0, i};
    route(pool);
    allocate(512);
    end_route(pool);
  }
  EXPECT_LE(engine_->visited_arena_count() - before, 256U * 100);
  EXPECT_EQ(stats().allocation.all.current, static_cast<int64_t>(kCount));
}

TEST_F(ManyStreams, PeaksAreExact) {
  start({}, 16 * kGiB);
  const std::vector<StreamId> streams = new_streams(200);
  Random random(3);
  Stat count;
  Stat bytes;
  std::map<StreamId, Stat> by_stream;
  std::vector<Block*> live;
  // Uses neighbouring streams together, so that the arenas of most streams rest (see
  // peak_tracker.h).
  for (int i = 0; i < 20'000; ++i) {
    const size_t first = static_cast<size_t>(i) / 500 * 7;
    const bool is_growing = i % 2000 < 1200;
    if (live.empty() || random.below(8) < (is_growing ? 5U : 3U)) {
      const StreamId stream = streams[(first + random.below(20)) % streams.size()];
      Block* block = allocate(1 + random.below(8192), stream);
      live.push_back(block);
      count.increase(1);
      bytes.increase(static_cast<int64_t>(block->bytes));
      by_stream[stream].increase(static_cast<int64_t>(block->bytes));
    } else {
      std::swap(live[random.below(live.size())], live.back());
      Block* block = live.back();
      live.pop_back();
      count.decrease(1);
      bytes.decrease(static_cast<int64_t>(block->bytes));
      by_stream[block->stream].decrease(static_cast<int64_t>(block->bytes));
      free(block);
    }
    if (i == 9000) {
      engine_->reset_peak_stats();
      for (Stat* stat : {&count, &bytes}) stat->reset_peak();
      for (auto& [stream, stat] : by_stream) stat.reset_peak();
    }
    if (i == 15'000) {
      engine_->reset_total_stats();
      for (Stat* stat : {&count, &bytes}) stat->increased = stat->decreased = 0;
    }
  }
  const AllocatorStats found = stats();
  EXPECT_EQ(found.allocation.all.peak, count.peak);
  EXPECT_EQ(found.allocation.all.current, count.current);
  EXPECT_EQ(found.allocated_bytes.all.peak, bytes.peak);
  EXPECT_EQ(found.allocated_bytes.all.increased, bytes.increased);
  EXPECT_EQ(found.allocated_bytes.all.decreased, bytes.decreased);
  for (const auto& [stream, stat] : by_stream) {
    EXPECT_EQ(found.streams.at(stream).allocated_bytes.peak, stat.peak);
    EXPECT_EQ(found.streams.at(stream).allocated_bytes.current, stat.current);
  }
  expect_valid();
}

// Every stream has three blocks at the beginning of an extent.
TEST_F(ManyStreams, InactiveSplitsAreExact) {
  start({}, 16 * kGiB);
  constexpr size_t kCount = 60;
  constexpr size_t kBytes = 64 * kKiB;
  const std::vector<StreamId> streams = new_streams(kCount);
  std::vector<Block*> blocks;
  for (const StreamId stream : streams) {
    for (int i = 0; i < 3; ++i) blocks.push_back(allocate(kBytes, stream));
  }
  const auto inactive = [&] {
    const AllocatorStats found = stats();
    EXPECT_EQ(found.inactive_split.all.current, found.inactive_split.small_pool.current);
    return std::pair(found.inactive_split.all.current, found.inactive_split_bytes.all.current);
  };
  constexpr auto kTailBytes = static_cast<int64_t>(2 * kMiB - 3 * kBytes);
  constexpr auto kStreams = static_cast<int64_t>(kCount);
  EXPECT_EQ(inactive(), std::pair(kStreams, kStreams * kTailBytes));
  for (size_t i = 0; i < kCount; i += 2) free(blocks[3 * i + 1]);
  const int64_t bytes = kStreams * kTailBytes + kStreams / 2 * static_cast<int64_t>(kBytes);
  EXPECT_EQ(inactive(), std::pair(kStreams * 3 / 2, bytes)) << "a hole in half of the extents";
  // While new streams allocate, the arenas of `streams` start to rest again (see peak_tracker.h).
  for (const StreamId stream : new_streams(20)) allocate(2 * kMiB, stream);
  EXPECT_EQ(inactive(), std::pair(kStreams * 3 / 2, bytes));
  for (size_t i = 0; i < kCount; i += 2) {
    free(blocks[3 * i]);
    free(blocks[3 * i + 2]);
  }
  EXPECT_EQ(inactive(), std::pair(kStreams / 2, kStreams / 2 * kTailBytes)) << "half are whole";
  must(engine_->trim());
  EXPECT_EQ(inactive(), std::pair(kStreams / 2, kStreams / 2 * kTailBytes));
  expect_valid();
}

TEST_F(ManyStreams, UsesMemoryThatAnIdleStreamFrees) {
  start({}, 16 * kGiB);
  constexpr size_t kCount = 300;
  std::vector<Block*> blocks;
  for (const StreamId stream : new_streams(kCount)) blocks.push_back(allocate(kLargeBytes, stream));
  const int64_t held_bytes = reserved_bytes();
  for (const size_t i : {3U, 77U, 150U}) {
    free(blocks[i]);
    blocks[i] = allocate(kLargeBytes, new_stream());
    EXPECT_EQ(reserved_bytes(), held_bytes) << "the block of an idle stream is used again";
  }
  for (Block* block : blocks) free(block);
  must(engine_->trim());
  EXPECT_EQ(reserved_bytes(), 0);
  expect_valid();
}

TEST_F(ManyStreams, StaysValidUnderRandomUse) {
  start({}, 16 * kGiB);
  const std::vector<StreamId> streams = new_streams(150);
  Random random(7);
  std::vector<Block*> live;
  for (int i = 0; i < 4000; ++i) {
    if (live.size() < 100 || random.below(2) == 0) {
      const size_t bytes = 1 + random.below(random.below(2) == 0 ? 4096 : 3 * kLargeBytes);
      live.push_back(allocate(bytes, streams[random.below(streams.size())]));
    } else {
      std::swap(live[random.below(live.size())], live.back());
      free(live.back());
      live.pop_back();
    }
    if (i % 500 == 499) expect_valid();
    if (i % 1000 == 999) {
      EXPECT_TRUE(engine_->trim_to({}).ok());
    }
  }
  for (Block* block : live) free(block);
  must(engine_->trim());
  EXPECT_EQ(reserved_bytes(), 0);
}

}  // namespace
}  // namespace ashlar::paged
