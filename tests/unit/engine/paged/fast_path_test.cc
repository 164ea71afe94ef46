// SPDX-License-Identifier: Apache-2.0
//
// Tests that a hit makes neither a driver call nor a heap allocation. The operator new that counts
// heap allocations applies to the whole executable.
#include <atomic>
#include <cstdlib>
#include <new>

#include "base/biased_mutex.h"
#include "paged_fixture.h"

namespace {

std::atomic<uint64_t> heap_count{0};  // relaxed, because only the writing thread reads it

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

class FastPathTest : public PagedFixture {
 protected:
  void expect_hits_make_no_calls(const std::vector<size_t>& sizes) {
    const auto round = [&] {
      for (const size_t bytes : sizes) {
        for (Block*& block : blocks_) block = *engine_->allocate({bytes, kDefaultStream});
        for (Block* block : blocks_) (void)engine_->free(block).ok();
      }
    };
    for (int i = 0; i < 3; ++i) round();  // fills the cache and sets the peak levels
    reset_call_counts();
    const uint64_t before = heap_count.load();
    for (int i = 0; i < 20; ++i) round();
    EXPECT_EQ(heap_count.load() - before, 0U) << "heap allocations";
    EXPECT_EQ(all_calls(), 0U) << "driver calls";
  }

  std::array<Block*, 8> blocks_{};
};

TEST_F(FastPathTest, HeapCounterCounts) {
  const uint64_t before = heap_count.load();
  const auto value = std::make_unique<int>(1);
  EXPECT_EQ(heap_count.load() - before, 1U);
}

TEST_F(FastPathTest, HitOfOneSizeMakesNoCalls) {
  start();
  for (const size_t bytes : {size_t{512}, size_t{20'000}, kMiB, 16 * kMiB}) {
    expect_hits_make_no_calls({bytes});
  }
}

TEST_F(FastPathTest, FastHitIsCountedAndRecorded) {
  if (!bias::is_supported()) GTEST_SKIP() << "NOT TESTED: biased locks are not available";
  start();
  for (int i = 0; i < 200; ++i) free(allocate(512));
  must(engine_->history().start({}));
  Block* block = engine_->allocate_fast(500, kDefaultStream);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(engine_->allocate_fast(500, kDefaultStream), nullptr) << "only one block is cached";
  EXPECT_EQ(block->requested_bytes, 500U);
  EXPECT_EQ(stats().requested_bytes.all.current, 500);
  Snapshot seen;
  engine_->history().read_into(seen, device().properties().index);
  const TraceEntry& last = seen.device_traces.back().back();
  EXPECT_EQ(last.action, TraceAction::kAlloc);
  EXPECT_EQ(last.bytes, 500U);
  must(engine_->free(block));
}

// The test uses more streams than the arena cache has entries, so some requests miss the fast path.
// No request may be served from another stream's arena.
TEST_F(FastPathTest, OneThreadServesManyStreams) {
  if (!bias::is_supported()) GTEST_SKIP() << "NOT TESTED: biased locks are not available";
  start();
  std::vector<StreamId> streams;
  for (int i = 0; i < 100; ++i) streams.push_back(new_stream());
  std::vector<Block*> all;  // raises the peaks, so that the use below stays under them
  for (const StreamId stream : streams) all.push_back(allocate(512, stream));
  for (Block* block : all) free(block);
  int fast_count = 0;
  for (int round = 0; round < 200; ++round) {
    for (const StreamId stream : streams) {
      Block* block = engine_->allocate_fast(512, stream);
      fast_count += block != nullptr ? 1 : 0;
      if (block == nullptr) block = *engine_->allocate({512, stream});
      ASSERT_EQ(block->stream, stream);
      must(engine_->free(block));
    }
  }
  EXPECT_GT(fast_count, 2'000) << "of 20,000";
  const StreamId two[] = {streams[0], streams[1]};
  for (int i = 0; i < 100; ++i) {
    for (const StreamId stream : two) must(engine_->free(*engine_->allocate({512, stream})));
  }
  for (int i = 0; i < 10; ++i) {
    for (const StreamId stream : two) {
      Block* block = engine_->allocate_fast(512, stream);
      ASSERT_NE(block, nullptr) << "alternating between two streams stays fast";
      must(engine_->free(block));
    }
  }
}

// The headroom up to the peaks is redistributed between small and large blocks, so both stay on the
// fast path.
TEST_F(FastPathTest, FastHitWhileSmallAndLargeAlternate) {
  if (!bias::is_supported()) GTEST_SKIP() << "NOT TESTED: biased locks are not available";
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

TEST_F(FastPathTest, HitsOfManySizesMakeNoCalls) {
  start();
  expect_hits_make_no_calls({512, 1024, 5000, 100'000, 700, 300'000, 4096});
}

// Small and large blocks alternately reach their peaks, so the peaks are updated each time.
TEST_F(FastPathTest, HitAtPeakMakesNoCalls) {
  start();
  allocate(512);  // keeps large blocks from borrowing the small extent
  expect_hits_make_no_calls({512, 4 * kMiB});
}

TEST_F(FastPathTest, HitMakesNoCallsWhileFreesArePending) {
  start();
  Block* used = allocate(2 * kMiB);
  use_on(used, busy_stream());
  free(used);
  expect_hits_make_no_calls({20'000});
  expect_hits_make_no_calls({4 * kMiB});
}

// Hits poll pending frees at growing intervals; misses always poll.
TEST_F(FastPathTest, PollsBusyStreamsRarely) {
  start();
  const StreamId stream = busy_stream();
  Block* used = allocate(32 * kMiB);
  use_on(used, stream);
  free(allocate(512 * kKiB));
  free(used);
  reset_call_counts();
  constexpr uint64_t kBlocks = 512;
  for (uint64_t i = 0; i < kBlocks; ++i) allocate(512);
  EXPECT_LE(calls(DeviceCall::kIsDone), kBlocks / 16);
  finish(stream);
  allocate(32 * kMiB);
  EXPECT_EQ(calls(DeviceCall::kCreate), 0U);
  EXPECT_EQ(stats().active.all.current, static_cast<int64_t>(kBlocks) + 1);
}

// Both sizes are smaller than an extent, so the pending free makes no whole extent idle. The
// allocation must wait for the pending free itself.
TEST_F(FastPathTest, FullDeviceWaitsForPendingFrees) {
  for (const size_t bytes : {512 * kKiB, 3 * kMiB / 2}) {
    start({}, 66 * kMiB);
    const StreamId stream = new_stream();
    must(machine_->pause_stream_until_waited(kDevice, stream));
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
    reset_call_counts();
    allocate(bytes);
    EXPECT_GT(calls(DeviceCall::kSynchronizeEvent), 0U);
  }
}

TEST_F(FastPathTest, MissIncreasesHeapAndDriverCounters) {
  start();
  const uint64_t before = heap_count.load();
  allocate(8 * kMiB);
  EXPECT_GT(heap_count.load() - before, 0U);
  EXPECT_GT(all_calls(), 0U);
}

}  // namespace
}  // namespace ashlar::paged
