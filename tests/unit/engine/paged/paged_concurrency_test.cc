// SPDX-License-Identifier: Apache-2.0
//
// Tests of threads that allocate, trim, pause and resume concurrently.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "contract/waiting.h"
#include "paged_fixture.h"

namespace ashlar::paged {
namespace {

class PagedConcurrency : public PagedBytesFixture {
 protected:
  // Without a seed, streams run on their own threads.
  void SetUp() override {
    machine_options_.backing = sim::Backing::kMemory;
    machine_options_.seed.reset();
    start({}, 2 * kGiB);
  }
  // Makes the next call of this device function hang until `release_hung_calls` is called.
  void hang_at(DeviceCall call) {
    machine_->inject({.call = call, .action = sim::FaultAction::kHang});
  }
  bool is_hanging() const { return machine_->hung_call_count() > 0; }
};

TEST_F(PagedConcurrency, ConcurrentOperationsKeepObserversInformed) {
  // The mirror needs no lock, because observers are called one at a time.
  std::map<DeviceAddress, size_t> mirror;
  RemapObserver observer;
  observer.after_map = [&](AddressRange range) {
    EXPECT_TRUE(mirror.emplace(range.begin, range.bytes).second) << "mapped twice";
  };
  observer.before_unmap = [&](AddressRange range) {
    EXPECT_EQ(mirror.erase(range.begin), 1U) << "never mapped";
  };
  must(engine_->add_remap_observer(observer));
  PoolOptions tagged;
  tagged.tag = "tag";
  make_pool(kPool, tagged);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      const StreamId stream = new_stream();
      for (size_t step = 1; step < 60; ++step) {
        if (i == 0 && step % 4 == 0) must(engine_->pause("tag", true));
        if (i <= 1 && step % 4 <= 1) must(engine_->resume("tag"));
        if (i == 2 && step % 5 == 0) must(engine_->trim());
        if (i == 3 && step == 10) {
          must(engine_->begin_routing(kPool, [stream](StreamId s) { return s == stream; }));
        }
        const Result<Block*> block = engine_->allocate({step * 300'000, stream});
        if (block.ok()) free(*block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  must(engine_->resume("tag"));
  const uint64_t mapped_count = calls(DeviceCall::kMap) - calls(DeviceCall::kUnmap);
  EXPECT_EQ(mirror.size(), mapped_count);
  expect_valid();
}

// All threads allocate and free on one stream, so any thread may map or retire mappings while the
// other threads read the same views.
TEST_F(PagedConcurrency, ThreadsShareViewsOfOneStream) {
  const StreamId stream = new_stream();
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 3; ++i) {
    threads.emplace_back([this, i, stream] {
      std::vector<Block*> kept;
      for (size_t step = 1; step <= 150; ++step) {
        const size_t bytes = (1 + (step * (7 + 4 * i)) % 23) * 700'000;
        const Result<Block*> block = engine_->allocate({bytes, stream});
        if (block.ok()) kept.push_back(*block);
        if (kept.size() <= 8 && step % 3 != 0) continue;
        std::swap(kept[step % kept.size()], kept.back());
        free(kept.back());
        kept.pop_back();
      }
      for (Block* block : kept) free(block);
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_valid();
}

TEST_F(PagedConcurrency, WaitsForStreamDestroyedWhileItLends) {
  start({}, 128 * kMiB);
  const StreamId destroyed = new_stream();
  const StreamId leaving = new_stream();
  allocate(2 * kMiB, new_stream());  // a stream that is kept
  Block* first = allocate(40 * kMiB, destroyed);
  Block* second = allocate(40 * kMiB, leaving);
  free(first);
  free(second);
  must(device().destroy_stream(destroyed));
  std::atomic<bool> is_over{false};
  std::atomic<bool> has_memory{false};
  hang_at(DeviceCall::kSynchronizeDevice);
  std::thread allocator([&] {
    EXPECT_TRUE(engine_->allocate({100 * kMiB, kDefaultStream}).ok());
    EXPECT_TRUE(is_over) << "work queued before the stream was destroyed may use the memory";
    has_memory = true;
  });
  ASSERT_TRUE(contract::eventually([&] { return is_hanging(); }));
  hang_at(DeviceCall::kRecordEvent);  // the call after the wait, when both streams lend
  machine_->release_hung_calls();
  ASSERT_TRUE(contract::eventually(
      [&] { return calls(DeviceCall::kSynchronizeDevice) == 1 && is_hanging(); }));
  reset_call_counts();
  contract::StreamGate gate(device(), leaving);
  must(device().call_host(leaving, [&] { is_over = true; }));
  must(device().destroy_stream(leaving));
  machine_->release_hung_calls();
  EXPECT_TRUE(contract::eventually([&] { return !is_hanging(); }));
  // If the allocation wrongly did not wait, it would return during this time.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(has_memory);
  gate.open();
  allocator.join();
}

// Memory of a destroyed stream is freed during the wait. A new stream with the same id may have
// used that memory, so the engine must wait again.
TEST_F(PagedConcurrency, SynchronizesAgainAfterUseDuringTheWait) {
  start({}, 128 * kMiB);
  const StreamId destroyed = new_stream();
  Block* left = allocate(8 * kMiB, destroyed);
  free(allocate(80 * kMiB, destroyed));
  machine_->inject({.call = DeviceCall::kRecordEvent,
                    .count = sim::FaultRule::kForever,
                    .status = Status::invalid_argument("destroyed")});
  hang_at(DeviceCall::kSynchronizeDevice);
  std::thread allocator([&] { EXPECT_TRUE(engine_->allocate({100 * kMiB, kDefaultStream}).ok()); });
  ASSERT_TRUE(contract::eventually([&] { return is_hanging(); }));
  free(left);
  machine_->release_hung_calls();
  allocator.join();
  EXPECT_EQ(calls(DeviceCall::kSynchronizeDevice), 2U);
}

TEST_F(PagedConcurrency, CaptureBegunWhileLendingIsLeftAlone) {
  const StreamId captured = new_stream();
  const StreamId other = new_stream();
  free(allocate(40 * kMiB, captured));
  engine_->capture_began();
  hang_at(DeviceCall::kIsIdle);
  hang_at(DeviceCall::kRecordEvent);
  std::atomic<bool> has_memory{false};
  std::thread allocator([&] {
    EXPECT_TRUE(engine_->allocate({40 * kMiB, other}).ok());
    has_memory = true;
  });
  EXPECT_TRUE(contract::eventually([&] { return is_hanging(); }));
  must(device().begin_capture(captured, CaptureMode::kThreadLocal));
  EXPECT_TRUE(contract::eventually([&] {
    machine_->release_hung_calls();
    return has_memory.load();
  }));
  allocator.join();
  EXPECT_EQ(device().capture_state(other)->status, CaptureStatus::kNone) << "it joined the capture";
  must(device().end_capture(captured).status());
  must(engine_->capture_ended());
}

}  // namespace
}  // namespace ashlar::paged
