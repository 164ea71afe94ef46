// SPDX-License-Identifier: Apache-2.0
//
// The cost of a scheduler's steps, counted in examined streams.
#include "device/sim/scheduler.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "device/sim/sim_stream.h"

namespace ashlar::sim {
namespace {

constexpr size_t kStreamCount = 1000;

class SchedulerTest : public testing::Test {
 protected:
  std::shared_ptr<SimStream> new_stream() {
    return std::make_shared<SimStream>(DeviceIndex(0), 0, clock_, &scheduler_);
  }
  void push_task(SimStream& stream) {
    EXPECT_TRUE(stream.push({[this] { ++run_count_; }, nullptr, nullptr, 0}).ok());
  }

  ManualClock clock_;
  Scheduler scheduler_{1};
  int run_count_ = 0;
};

TEST_F(SchedulerTest, StepsDoNotExamineIdleOrPausedStreams) {
  std::vector<std::shared_ptr<SimStream>> others;
  for (size_t i = 0; i < kStreamCount; ++i) {
    others.push_back(new_stream());
    if (i % 2 == 0) continue;
    others.back()->pause();
    push_task(*others.back());
  }
  const std::shared_ptr<SimStream> busy = new_stream();
  for (int i = 0; i < 10; ++i) push_task(*busy);
  while (scheduler_.step()) {
  }
  EXPECT_EQ(run_count_, 10);
  EXPECT_EQ(scheduler_.examined_count(), 10U);
}

TEST_F(SchedulerTest, RunsStreamsAfterTheyAreResumed) {
  const std::shared_ptr<SimStream> stream = new_stream();
  stream->pause();
  push_task(*stream);
  EXPECT_FALSE(scheduler_.step());
  stream->resume();
  EXPECT_TRUE(scheduler_.step());
  EXPECT_EQ(run_count_, 1);
}

TEST_F(SchedulerTest, ForgetsDestroyedStreams) {
  for (size_t i = 0; i < kStreamCount; ++i) {
    const std::shared_ptr<SimStream> stream = new_stream();
    stream->pause_until_waited();
    push_task(*stream);
    if (i % 2 == 0) stream->resume();
  }
  Completion never;
  EXPECT_FALSE(scheduler_.step());
  EXPECT_TRUE(scheduler_.run_until(never).is(StatusKind::kDeviceFault));
  EXPECT_EQ(scheduler_.examined_count(), 0U);
}

}  // namespace
}  // namespace ashlar::sim
