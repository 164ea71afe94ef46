// SPDX-License-Identifier: Apache-2.0
//
// Threads that allocate, trim, pause and resume at once.
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
  // Streams run by themselves.
  void SetUp() override {
    machine_options_.backing = sim::Backing::kMemory;
    machine_options_.seed.reset();
    start({}, 2 * kGiB);
  }
  // The next call of its kind does not go on before it is told to.
  void stop_at(DeviceCall call) {
    machine_->inject({.call = call, .action = sim::FaultAction::kHang});
  }
  bool is_stopped() const { return machine_->hanging_count() > 0; }
};

TEST_F(PagedConcurrency, PausesTrimsAndAllocationsKeepOneMirrorTrue) {
  // No lock of its own: observers are called one at a time.
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
  tagged.tag = "sleeper";
  make_pool(kPool, tagged);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      const StreamId stream = new_stream();
      for (size_t step = 1; step < 60; ++step) {
        if (i == 0 && step % 4 == 0) must(engine_->pause("sleeper", true));
        if (i <= 1 && step % 4 <= 1) must(engine_->resume("sleeper"));
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
  must(engine_->resume("sleeper"));
  const uint64_t mapped_count = calls(DeviceCall::kMap) - calls(DeviceCall::kUnmap);
  EXPECT_EQ(mirror.size(), mapped_count);
  expect_valid();
}

// What one of them maps behind a view, and what it retires, the others look at all the time.
TEST_F(PagedConcurrency, ThreadsOfOneStreamGrowItsViewsWhileOthersAreServedFromThem) {
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

TEST_F(PagedConcurrency, AStreamThatGoesWhileItsMemoryIsTakenIsWaitedForAsWell) {
  start({}, 128 * kMiB);
  const StreamId gone = new_stream();
  const StreamId going = new_stream();
  allocate(2 * kMiB, new_stream());  // a stream that stays
  Block* first = allocate(40 * kMiB, gone);
  Block* second = allocate(40 * kMiB, going);
  free(first);
  free(second);
  must(device().destroy_stream(gone));
  std::atomic<bool> is_over{false};
  std::atomic<bool> has_memory{false};
  stop_at(DeviceCall::kSynchronizeDevice);
  std::thread taker([&] {
    EXPECT_TRUE(engine_->allocate({100 * kMiB, kDefaultStream}).ok());
    EXPECT_TRUE(is_over) << "work that was queued before the stream went may use the memory";
    has_memory = true;
  });
  ASSERT_TRUE(contract::eventually([&] { return is_stopped(); }));
  stop_at(DeviceCall::kRecordEvent);  // after that wait, with both of them as lenders
  machine_->release_hangs();
  ASSERT_TRUE(contract::eventually(
      [&] { return calls(DeviceCall::kSynchronizeDevice) == 1 && is_stopped(); }));
  forget_calls();
  contract::Gate gate(device(), going);
  must(device().call_host(going, [&] { is_over = true; }));
  must(device().destroy_stream(going));
  machine_->release_hangs();
  EXPECT_TRUE(contract::eventually([&] { return !is_stopped(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // enough for one who does not wait
  EXPECT_FALSE(has_memory);
  gate.open();
  taker.join();
}

// Its id may be another stream's by now, and that one be at work in it.
TEST_F(PagedConcurrency, WhatAGoneStreamLeftIsNotTrustedIfItWasUsedDuringTheWait) {
  start({}, 128 * kMiB);
  const StreamId gone = new_stream();
  Block* left = allocate(8 * kMiB, gone);
  free(allocate(80 * kMiB, gone));
  machine_->inject({.call = DeviceCall::kRecordEvent,
                    .count = sim::FaultRule::kForever,
                    .status = Status::invalid_argument("it is gone")});
  stop_at(DeviceCall::kSynchronizeDevice);
  std::thread taker([&] { EXPECT_TRUE(engine_->allocate({100 * kMiB, kDefaultStream}).ok()); });
  ASSERT_TRUE(contract::eventually([&] { return is_stopped(); }));
  free(left);
  machine_->release_hangs();
  taker.join();
  EXPECT_EQ(calls(DeviceCall::kSynchronizeDevice), 2U);
}

TEST_F(PagedConcurrency, ACaptureThatBeginsWhileItsStreamLendsIsLeftAlone) {
  const StreamId captured = new_stream();
  const StreamId other = new_stream();
  free(allocate(40 * kMiB, captured));
  engine_->capture_began();
  stop_at(DeviceCall::kIsIdle);
  stop_at(DeviceCall::kRecordEvent);
  std::atomic<bool> has_memory{false};
  std::thread taker([&] {
    EXPECT_TRUE(engine_->allocate({40 * kMiB, other}).ok());
    has_memory = true;
  });
  EXPECT_TRUE(contract::eventually([&] { return is_stopped(); }));
  must(device().begin_capture(captured, CaptureMode::kThreadLocal));
  EXPECT_TRUE(contract::eventually([&] {
    machine_->release_hangs();
    return has_memory.load();
  }));
  taker.join();
  EXPECT_EQ(device().capture_state(other)->status, CaptureStatus::kNone) << "it joined the capture";
  must(device().end_capture(captured).status());
  must(engine_->capture_ended());
}

}  // namespace
}  // namespace ashlar::paged
