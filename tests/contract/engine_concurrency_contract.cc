// SPDX-License-Identifier: Apache-2.0
//
// Tests many threads on one engine: private and shared streams, frees by other threads, pools,
// trims and queries. The contents of blocks show whether two blocks ever overlapped. These tests
// also run under ThreadSanitizer.
#include <atomic>
#include <deque>

#include "base/mutex.h"
#include "base/random.h"
#include "engine_contract.h"

namespace ashlar::contract {
namespace {

constexpr int kStepCount = 150;

// Passes blocks between threads.
class Exchange {
 public:
  void put(Block* block) {
    MutexLock lock(mutex_);
    blocks_.push_back(block);
  }
  Block* take() {
    MutexLock lock(mutex_);
    if (blocks_.empty()) return nullptr;
    Block* block = blocks_.front();
    blocks_.pop_front();
    return block;
  }

 private:
  Mutex mutex_;
  std::deque<Block*> blocks_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace

TEST_P(EngineConcurrencyContract, BlocksOfConcurrentThreadsNeverOverlap) {
  std::vector<StreamId> streams = {kDefaultStream, create_stream()};
  for (size_t i = 0; i < kThreadCount; ++i) streams.push_back(create_stream());
  on_threads([&](size_t thread) {
    Random random(thread);
    struct Tracked {
      Block* block;
      uint8_t value;
    };
    std::vector<Tracked> kept;
    const auto free_one = [&] {
      std::swap(kept[random.below(kept.size())], kept.back());
      const Tracked each = kept.back();
      kept.pop_back();
      EXPECT_TRUE(contains(each.block, each.value));
      require_ok(engine().free(each.block));
    };
    for (int step = 0; step < kStepCount; ++step) {
      const StreamId stream = random.below(2) == 0 ? streams[2 + thread] : streams[random.below(2)];
      const size_t bytes = 1 + random.below(size_t{1} << (9 + random.below(9)));
      Block* block = require_ok(engine().allocate({bytes, stream}));
      kept.push_back({block, static_cast<uint8_t>(thread * 31 + step)});
      fill(block, kept.back().value);
      if (random.below(4) == 0) {
        // `reader` reads what `stream` wrote. The block may be freed while that work is queued.
        const StreamId reader = streams[random.below(streams.size())];
        order_streams(stream, reader);
        require_ok(engine().record_stream(block, {&device(), reader}));
        EXPECT_TRUE(contains(block, kept.back().value, reader));
      }
      if (kept.size() > 12) free_one();
      if (step % 61 == 0) require_ok(engine().trim());
    }
    while (!kept.empty()) free_one();
  });
  expect_trims_to_zero();
}

TEST_P(EngineConcurrencyContract, ThreadsFreeEachOthersBlocks) {
  Exchange exchange;
  const StreamId used = create_stream();
  on_threads([&](size_t thread) {
    Random random(100 + thread);
    for (int step = 0; step < kStepCount; ++step) {
      Block* block = require_ok(engine().allocate({1 + random.below(3 * kMiB), kDefaultStream}));
      if (random.below(3) == 0) require_ok(engine().record_stream(block, {&device(), used}));
      exchange.put(block);
      if (Block* taken = exchange.take()) require_ok(engine().free(taken));
      const AllocatorStats now = stats();  // a consistent snapshot
      EXPECT_GE(now.active.all.current, now.allocation.all.current);
      EXPECT_GE(now.active_bytes.all.current, now.requested_bytes.all.current);
      EXPECT_GE(now.reserved_bytes.all.current, now.active_bytes.all.current);
    }
  });
  while (Block* left = exchange.take()) require_ok(engine().free(left));
  expect_trims_to_zero();
}

TEST_P(EngineConcurrencyContract, PoolsAreCreatedWhileThreadsAllocate) {
  on_threads([&](size_t thread) {
    const StreamId stream = require_ok(device().create_stream());
    for (uint64_t round = 0; round < 12; ++round) {
      const PoolId pool{0, 1 + thread * 100 + round};
      require_ok(engine().create_pool(pool, {.no_split = round % 2 == 0}));
      require_ok(
          engine().begin_routing(pool, [stream](StreamId asked) { return asked == stream; }));
      std::vector<Block*> blocks;
      for (size_t bytes : {size_t{512}, 2 * kMiB, size_t{512}}) {
        blocks.push_back(require_ok(engine().allocate({bytes, stream})));
      }
      require_ok(engine().end_routing(pool));
      require_ok(engine().release_pool(pool));
      require_ok(engine().release_pool(pool));
      for (Block* block : blocks) require_ok(engine().free(block));
      if (round % 3 == 0) require_ok(engine().trim());
    }
  });
  expect_trims_to_zero();
}

TEST_P(EngineConcurrencyContract, TrackersSeeSerializedEventsInAddressOrder) {
  using enum TraceAction;
  std::map<DeviceAddress, bool> is_live;  // no lock, because trackers are called one at a time
  engine().add_tracker([&](const TraceEntry& entry) {
    if (entry.action == kAlloc) {
      EXPECT_FALSE(is_live[entry.address]);
      is_live[entry.address] = true;
    } else if (entry.action == kFreeRequested) {
      EXPECT_TRUE(is_live[entry.address]);
      is_live[entry.address] = false;
    }
  });
  on_threads([&](size_t thread) {
    for (int step = 0; step < kStepCount; ++step) {
      const size_t bytes = (thread + 1) * 512 * (step % 4 + 1);
      require_ok(engine().free(require_ok(engine().allocate({bytes, kDefaultStream}))));
    }
  });
  expect_trims_to_zero();
  for (const auto& [address, live] : is_live) EXPECT_FALSE(live);
}

TEST_P(EngineConcurrencyContract, ThreadsGetMemoryOrOutOfMemoryWhenDeviceFills) {
  require_ok(engine().set_memory_fraction(0.75));
  std::atomic<int> full_count = 0;
  on_threads([&](size_t thread) {
    const StreamId stream = require_ok(device().create_stream());
    std::vector<Block*> blocks;
    for (size_t step = 0; step < 40; ++step) {
      const size_t bytes = ((thread + step) % 4 * 8 + 1) * kMiB;
      const Result<Block*> block = engine().allocate({bytes, stream});
      if (block.ok()) {
        blocks.push_back(*block);
        continue;
      }
      EXPECT_EQ(block.status().kind(), StatusKind::kOutOfMemory) << block.status().to_string();
      ++full_count;
      for (Block* each : std::exchange(blocks, {})) require_ok(engine().free(each));
    }
    for (Block* each : blocks) require_ok(engine().free(each));
  });
  EXPECT_GT(full_count.load(), 0);
  EXPECT_LE(used_bytes(), kCapacityBytes / 4 * 3);
  expect_trims_to_zero();
}

}  // namespace ashlar::contract
