// SPDX-License-Identifier: Apache-2.0
//
// Tests of many threads that use one allocator: private and shared streams, frees by other threads,
// trims and snapshots. Checks that no memory is lost; ThreadSanitizer checks for data races.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <thread>

#include "ashlar/allocator.h"
#include "ashlar/sim.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/units.h"

namespace ashlar {
namespace {

constexpr size_t kThreadCount = 8;
constexpr int kStepCount = 400;

// Passes addresses to other threads, which free them.
class Exchange {
 public:
  void put(DeviceAddress address) {
    MutexLock lock(mutex_);
    addresses_.push_back(address);
  }
  DeviceAddress take() {
    MutexLock lock(mutex_);
    if (addresses_.empty()) return {};
    const DeviceAddress address = addresses_.front();
    addresses_.pop_front();
    return address;
  }

 private:
  Mutex mutex_;
  std::deque<DeviceAddress> addresses_ ASHLAR_GUARDED_BY(mutex_);
};

struct ConcurrencyCase {
  const char* name;
  bool expandable;
  bool compatible;
};

class ClassicConcurrencyTest : public ::testing::TestWithParam<ConcurrencyCase> {
 protected:
  ClassicConcurrencyTest() {
    sim::Options options;
    options.device_count = 1;
    options.capacity_bytes = 512 * kMiB;
    options.backing = sim::Backing::kBookkeeping;
    machine_ = *sim::Machine::try_create(options);
  }
  Device& device() { return machine_->device(DeviceIndex(0)); }
  AllocatorOptions options() const {
    AllocatorOptions options;
    options.engine = EngineKind::kClassic;
    options.expandable_segments = GetParam().expandable;
    options.pytorch_compatible = GetParam().compatible;
    return options;
  }
  void expect_empty(Allocator& allocator) {
    allocator.trim();
    EXPECT_EQ(allocator.stats().active.all.current, 0);
    EXPECT_EQ(allocator.stats().reserved_bytes.all.current, 0);
    const DeviceMemoryStats use = *device().memory_stats();
    EXPECT_EQ(use.free_bytes, use.total_bytes);
  }
  static void in_threads(const std::function<void(size_t)>& work) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kThreadCount; ++i) threads.emplace_back(work, i);
    for (std::thread& thread : threads) thread.join();
  }

  std::unique_ptr<sim::Machine> machine_;
};

TEST_P(ClassicConcurrencyTest, ThreadsFreeEachOthersMemory) {
  Allocator allocator(device(), options());
  const StreamId shared = *device().create_stream();
  Exchange exchange;
  std::atomic<size_t> ooms = 0;
  in_threads([&](size_t index) {
    Random random(index);
    const StreamId own = *device().create_stream();
    for (int step = 0; step < kStepCount; ++step) {
      const StreamId stream = random.below(2) == 0 ? own : shared;
      const size_t bytes = size_t{1} << (9 + random.below(15));
      try {
        const DeviceAddress address = allocator.allocate_raw(bytes, stream);
        if (random.below(3) == 0) allocator.record_stream(address, shared);
        if (random.below(3) == 0) allocator.record_stream(address, own);
        exchange.put(address);
      } catch (const OutOfMemory&) {
        ++ooms;
      }
      if (step % 4 != 0) allocator.free_raw(exchange.take());
      if (step % 100 == 99) allocator.trim();
      const AllocatorStats stats = allocator.stats();
      EXPECT_GE(stats.reserved_bytes.all.current, stats.active_bytes.all.current);
    }
  });
  for (DeviceAddress left = exchange.take(); !left.is_null(); left = exchange.take()) {
    allocator.free_raw(left);
  }
  expect_empty(allocator);
}

TEST_P(ClassicConcurrencyTest, ConcurrentFreesSucceedOnce) {
  Allocator allocator(device(), options());
  for (int round = 0; round < 50; ++round) {
    const DeviceAddress address = allocator.allocate_raw(512);
    std::atomic<int> succeeded = 0;
    in_threads([&](size_t) {
      try {
        allocator.free_raw(address);
        ++succeeded;
      } catch (const InvalidArgument&) {
      }
    });
    EXPECT_EQ(succeeded, 1);
  }
  expect_empty(allocator);
}

TEST_P(ClassicConcurrencyTest, NotifiesTrackersInOrder) {
  Allocator allocator(device(), options());
  std::atomic<bool> inside = false;
  int64_t live_count = 0;
  bool was_negative = false;
  allocator.hooks().add_tracker([&](const TraceEntry& entry) {
    EXPECT_FALSE(inside.exchange(true));
    if (entry.action == TraceAction::kAlloc) ++live_count;
    if (entry.action == TraceAction::kFreeRequested) --live_count;
    was_negative = was_negative || live_count < 0;
    inside = false;
  });
  in_threads([&](size_t index) {
    for (int step = 0; step < kStepCount; ++step) {
      const Buffer buffer = allocator.allocate(512 * (index + 1));
    }
  });
  EXPECT_FALSE(was_negative) << "a free was reported before its allocation";
  EXPECT_EQ(live_count, 0);
  expect_empty(allocator);
}

TEST_P(ClassicConcurrencyTest, CreatesAndReleasesPoolsConcurrently) {
  Allocator allocator(device(), options());
  in_threads([&](size_t index) {
    const std::thread::id self = std::this_thread::get_id();
    for (int round = 0; round < 25; ++round) {
      const PoolId pool = allocator.pools().create();
      allocator.pools().begin_routing(
          pool, [self](StreamId) { return std::this_thread::get_id() == self; });
      {
        const Buffer small = allocator.allocate(512 * (index + 1));
        const Buffer large = allocator.allocate(3 * kMiB);
      }
      allocator.pools().end_routing(pool);
      allocator.pools().release(pool);
      allocator.pools().release(pool);
      if (index % 2 == 0) allocator.pools().trim(pool);
    }
  });
  expect_empty(allocator);
}

INSTANTIATE_TEST_SUITE_P(Modes, ClassicConcurrencyTest,
                         ::testing::Values(ConcurrencyCase{"Plain", false, false},
                                           ConcurrencyCase{"PlainCompatible", false, true},
                                           ConcurrencyCase{"Expandable", true, false}),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace ashlar
