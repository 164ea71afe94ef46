// SPDX-License-Identifier: Apache-2.0
//
// Tests of background polling with a stepped clock.
#include "host/poller.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "pinned_fixture.h"

namespace ashlar {
namespace {

// A clock whose sleepers wait until the test advances it.
class SteppedClock final : public Clock {
 public:
  int64_t now_ns() override {
    MutexLock lock(mutex_);
    return now_ns_;
  }
  void sleep_ns(int64_t duration_ns) override {
    MutexLock lock(mutex_);
    ++sleep_count_;
    last_duration_ns_ = duration_ns;
    changed_.notify_all();
    while (step_count_ < sleep_count_) lock.wait(changed_);
    now_ns_ += duration_ns;
  }

  // Waits until `count` sleeps have begun. Returns the duration of the latest sleep.
  int64_t await_sleep(int count) {
    MutexLock lock(mutex_);
    while (sleep_count_ < count) lock.wait(changed_);
    return last_duration_ns_;
  }
  void step() {
    MutexLock lock(mutex_);
    ++step_count_;
    changed_.notify_all();
  }
  int sleep_count() {
    MutexLock lock(mutex_);
    return sleep_count_;
  }

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  int64_t now_ns_ = 0;
  int64_t last_duration_ns_ = 0;
  int sleep_count_ = 0;
  int step_count_ = 0;
};

TEST(PollerTest, PollsUntilDoneThenSleeps) {
  SteppedClock clock;
  std::atomic<int> polls = 0;
  std::atomic<int> left = 3;
  Poller poller(clock, [&] {
    ++polls;
    return --left > 0;
  });
  EXPECT_EQ(polls, 0) << "the thread starts when woken";
  ASSERT_TRUE(poller.wake());
  EXPECT_EQ(clock.await_sleep(1), 100'000);
  EXPECT_EQ(polls, 1);
  clock.step();
  clock.await_sleep(2);
  EXPECT_EQ(polls, 2);
  clock.step();
  while (polls < 3) std::this_thread::yield();
  left = 1;
  ASSERT_TRUE(poller.wake());
  while (polls < 4) std::this_thread::yield();
  EXPECT_EQ(clock.sleep_count(), 2) << "must wait on a condition, not on the clock";
}

TEST(PollerTest, WakeDuringPollIsNotLost) {
  SteppedClock clock;
  std::atomic<int> polls = 0;
  Poller* self = nullptr;
  Poller poller(clock, [&] {
    if (++polls == 1) {
      EXPECT_TRUE(self->wake());
    }
    return false;
  });
  self = &poller;
  ASSERT_TRUE(poller.wake());
  while (polls < 2) std::this_thread::yield();
}

class BackgroundPollingTest : public PinnedTest {
 protected:
  BackgroundPollingTest() {
    options_.pinned.use_background_threads = true;
    allocator_ = *PinnedAllocator::create(device(), options_, clock_of_poller_);
  }
  ~BackgroundPollingTest() override { allocator_.reset(); }

  SteppedClock clock_of_poller_;
};

TEST_F(BackgroundPollingTest, ThreadCollectsFinishedBlocks) {
  const StreamId stream = busy_stream();
  PinnedBlock* block = allocate(kMiB);
  free_used_on(block, stream);
  EXPECT_EQ(clock_of_poller_.await_sleep(1), Poller::kPeriodNs);
  const uint64_t asked = call_count(DeviceCall::kIsDone);
  EXPECT_NE(allocate(kMiB), block);
  EXPECT_EQ(call_count(DeviceCall::kIsDone), asked) << "allocate must not poll; the thread does";
  finish(stream);
  clock_of_poller_.step();
  while (pinned().stats().active_requests.current > 1) std::this_thread::yield();
  EXPECT_EQ(allocate(kMiB), block);
  EXPECT_EQ(clock_of_poller_.sleep_count(), 1) << "an idle thread must not poll";
}

TEST_F(BackgroundPollingTest, ThreadRetriesWhileAnotherCollects) {
  const StreamId stream = busy_stream();
  PinnedBlock* block = allocate(kMiB);
  free_used_on(block, stream);
  clock_of_poller_.await_sleep(1);
  machine_->inject({.call = DeviceCall::kIsDone, .action = sim::FaultAction::kHang});
  std::thread trimming([&] { EXPECT_TRUE(pinned().trim().ok()); });
  while (machine_->hung_call_count() == 0) std::this_thread::yield();
  clock_of_poller_.step();
  clock_of_poller_.await_sleep(2);
  machine_->release_hung_calls();
  trimming.join();
  finish(stream);
  clock_of_poller_.step();
  while (pinned().stats().active_requests.current > 0) std::this_thread::yield();
}

TEST_F(BackgroundPollingTest, NextAllocateReportsThreadErrors) {
  const StreamId stream = busy_stream();
  PinnedBlock* block = allocate(kMiB);
  fail_next(DeviceCall::kIsDone);
  free_used_on(block, stream);
  clock_of_poller_.await_sleep(1);
  EXPECT_EQ(pinned().allocate(kMiB).status().failed_call(), "is_done");
  finish(stream);
  clock_of_poller_.step();
  while (pinned().stats().active_requests.current > 0) std::this_thread::yield();
}

TEST_F(BackgroundPollingTest, ThreadDoesNotInvalidateCaptures) {
  const StreamId stream = busy_stream();
  free_used_on(allocate(kMiB), stream);
  clock_of_poller_.await_sleep(1);
  const StreamId capturing = *device().create_stream();
  ASSERT_TRUE(device().begin_capture(capturing, CaptureMode::kGlobal).ok());
  clock_of_poller_.step();
  clock_of_poller_.await_sleep(2);
  EXPECT_TRUE(device().end_capture(capturing).ok());
  finish(stream);
  clock_of_poller_.step();
}

TEST_F(BackgroundPollingTest, ThreadReleasesLargeBlocks) {
  options_.pinned.max_cached_bytes = kMiB;
  allocator_ = *PinnedAllocator::create(device(), options_, clock_of_poller_);
  const StreamId stream = busy_stream();
  free_used_on(allocate(2 * kMiB), stream);
  clock_of_poller_.await_sleep(1);
  EXPECT_EQ(call_count(DeviceCall::kFreeHost), 0U);
  finish(stream);
  clock_of_poller_.step();
  while (call_count(DeviceCall::kFreeHost) == 0) std::this_thread::yield();
}

}  // namespace
}  // namespace ashlar
