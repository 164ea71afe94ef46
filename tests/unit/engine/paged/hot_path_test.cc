// SPDX-License-Identifier: Apache-2.0
//
// A hit costs neither a driver call nor an allocation on the heap: both are counted. The counting
// operator new serves the whole executable.
#include <atomic>
#include <cstdlib>
#include <new>

#include "base/biased_mutex.h"
#include "paged_fixture.h"

namespace {

std::atomic<uint64_t> heap_count{0};  // only a number, read by the thread that caused it

}  // namespace

void* operator new(size_t bytes) {
  heap_count.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);  // NOLINT(cppcoreguidelines-no-malloc)
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }          // NOLINT
void operator delete(void* memory, size_t) noexcept { std::free(memory); }  // NOLINT

namespace ashlar::paged {
namespace {

class HotPathTest : public PagedFixture {
 protected:
  void expect_hits_cost_nothing(const std::vector<size_t>& sizes) {
    const auto round = [&] {
      for (const size_t bytes : sizes) {
        for (Block*& block : blocks_) block = *engine_->allocate({bytes, kDefaultStream});
        for (Block* block : blocks_) (void)engine_->free(block).ok();
      }
    };
    for (int i = 0; i < 3; ++i) round();  // what is cached, and the levels of the statistics
    forget_calls();
    const uint64_t before = heap_count.load();
    for (int i = 0; i < 20; ++i) round();
    EXPECT_EQ(heap_count.load() - before, 0U) << "allocations on the heap";
    EXPECT_EQ(all_calls(), 0U) << "driver calls";
  }

  std::array<Block*, 8> blocks_{};
};

TEST_F(HotPathTest, TheCounterCounts) {
  const uint64_t before = heap_count.load();
  const auto something = std::make_unique<int>(1);
  EXPECT_EQ(heap_count.load() - before, 1U);
}

TEST_F(HotPathTest, AHitOfOneSizeCostsNothing) {
  start();
  for (const size_t bytes : {size_t{512}, size_t{20'000}, kMiB, 16 * kMiB}) {
    expect_hits_cost_nothing({bytes});
  }
}

TEST_F(HotPathTest, AHitIsThereAtOnceAndIsCountedAndRecorded) {
  if (!bias::is_supported()) GTEST_SKIP() << "NOT TESTED: no thread owns a lock here";
  start();
  for (int i = 0; i < 200; ++i) free(allocate(512));
  must(engine_->history().start({}));
  Block* block = engine_->allocate_fast(500, kDefaultStream);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(engine_->allocate_fast(500, kDefaultStream), nullptr) << "there is no second one";
  EXPECT_EQ(block->requested_bytes, 500U);
  EXPECT_EQ(stats().requested_bytes.all.current, 500);
  Snapshot seen;
  engine_->history().read_into(seen, device().properties().index);
  const TraceEntry& last = seen.device_traces.back().back();
  EXPECT_EQ(last.action, TraceAction::kAlloc);
  EXPECT_EQ(last.bytes, 500U);
  must(engine_->free(block));
}

// More streams than there are places for them: some are found the slow way, none is mistaken.
TEST_F(HotPathTest, AThreadMayWorkOnManyStreams) {
  if (!bias::is_supported()) GTEST_SKIP() << "NOT TESTED: no thread owns a lock here";
  start();
  std::vector<StreamId> streams;
  for (int i = 0; i < 100; ++i) streams.push_back(new_stream());
  std::vector<Block*> all;  // peaks that the rest stays below
  for (const StreamId stream : streams) all.push_back(allocate(512, stream));
  for (Block* block : all) free(block);
  int at_once_count = 0;
  for (int round = 0; round < 200; ++round) {
    for (const StreamId stream : streams) {
      Block* block = engine_->allocate_fast(512, stream);
      at_once_count += block != nullptr ? 1 : 0;
      if (block == nullptr) block = *engine_->allocate({512, stream});
      ASSERT_EQ(block->stream, stream);
      must(engine_->free(block));
    }
  }
  EXPECT_GT(at_once_count, 2'000) << "of 20,000";
  const StreamId two[] = {streams[0], streams[1]};
  for (int i = 0; i < 100; ++i) {
    for (const StreamId stream : two) must(engine_->free(*engine_->allocate({512, stream})));
  }
  for (int i = 0; i < 10; ++i) {
    for (const StreamId stream : two) {
      Block* block = engine_->allocate_fast(512, stream);
      ASSERT_NE(block, nullptr) << "turns between two streams are as good as none";
      must(engine_->free(block));
    }
  }
}

// A small one takes the place of a large one: what may be handed out unseen is divided anew.
TEST_F(HotPathTest, AHitIsThereAtOnceWhereSmallAndLargeBlocksTakeTurns) {
  if (!bias::is_supported()) GTEST_SKIP() << "NOT TESTED: no thread owns a lock here";
  start();
  allocate(512);
  for (int i = 0; i < 200; ++i) {
    free(allocate(512));
    free(allocate(4 * kMiB));
  }
  for (const size_t bytes : {size_t{512}, 4 * kMiB, size_t{512}, 4 * kMiB}) {
    Block* block = engine_->allocate_fast(bytes, kDefaultStream);
    ASSERT_NE(block, nullptr) << bytes;
    must(engine_->free(block));
  }
  EXPECT_EQ(stats().allocation.all.peak, 2);
  EXPECT_EQ(stats().allocated_bytes.all.peak, static_cast<int64_t>(4 * kMiB + 512));
}

TEST_F(HotPathTest, HitsOfManySizesCostNothing) {
  start();
  expect_hits_cost_nothing({512, 1024, 5000, 100'000, 700, 300'000, 4096});
}

// Small blocks and large ones take turns in reaching the peaks, which are summed up each time.
TEST_F(HotPathTest, AHitThatReachesAPeakCostsNothing) {
  start();
  allocate(512);  // so that the memory of small blocks is not lent to large ones
  expect_hits_cost_nothing({512, 4 * kMiB});
}

TEST_F(HotPathTest, AHitCostsNothingWhileAnotherStreamUsesWhatWasFreed) {
  start();
  Block* used = allocate(2 * kMiB);
  use_on(used, busy_stream());
  free(used);
  expect_hits_cost_nothing({20'000});
  expect_hits_cost_nothing({4 * kMiB});
}

// What is cut out of free ranges looks now and then whether that stream has passed, and rarely
// while it never has; what finds no memory looks at once.
TEST_F(HotPathTest, ABusyStreamIsNotAskedBeforeEachBlock) {
  start();
  const StreamId stream = busy_stream();
  Block* used = allocate(32 * kMiB);
  use_on(used, stream);
  free(allocate(512 * kKiB));
  free(used);
  forget_calls();
  constexpr uint64_t kBlocks = 512;
  for (uint64_t i = 0; i < kBlocks; ++i) allocate(512);
  EXPECT_LE(calls(DeviceCall::kIsDone), kBlocks / 16);
  finish(stream);
  allocate(32 * kMiB);
  EXPECT_EQ(calls(DeviceCall::kCreate), 0U);
  EXPECT_EQ(stats().active.all.current, static_cast<int64_t>(kBlocks) + 1);
}

// Blocks smaller than an extent, too: nothing whole becomes idle by the wait.
TEST_F(HotPathTest, WhatAFullDeviceIsWaitedForServesTheRequest) {
  for (const size_t bytes : {512 * kKiB, 3 * kMiB / 2}) {
    start({}, 66 * kMiB);
    const StreamId stream = new_stream();
    must(machine_->hold_until_waited(kDevice, stream));
    work(device(), stream);
    if (bytes > kMiB) free(allocate(64 * kMiB));
    std::vector<Block*> blocks;
    for (;;) {
      const Result<Block*> block = engine_->allocate({bytes, kDefaultStream});
      if (!block.ok()) break;
      blocks.push_back(*block);
    }
    Block* used = blocks[blocks.size() / 2];
    use_on(used, stream);
    free(used);
    forget_calls();
    allocate(bytes);
    EXPECT_GT(calls(DeviceCall::kSynchronizeEvent), 0U);
  }
}

TEST_F(HotPathTest, AMissIsSeenByBothCounters) {
  start();
  const uint64_t before = heap_count.load();
  allocate(8 * kMiB);
  EXPECT_GT(heap_count.load() - before, 0U);
  EXPECT_GT(all_calls(), 0U);
}

}  // namespace
}  // namespace ashlar::paged
