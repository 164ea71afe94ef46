// SPDX-License-Identifier: Apache-2.0
//
// Idle queries, captures, and events of streams.
#include "engine/paged/stream_monitor.h"

#include "unit/engine/paged/parts_fixture.h"

namespace ashlar::paged {
namespace {

class StreamMonitorTest : public PartsFixture {};

TEST_F(StreamMonitorTest, ReusesEvents) {
  EngineLock lock(parts_->mutex);
  const StreamId stream = busy_stream();
  const EventId first = *parts_->streams.record_event(stream);
  EXPECT_FALSE(parts_->streams.recycle_if_done(first));
  finish(stream);
  EXPECT_TRUE(parts_->streams.recycle_if_done(first));
  EXPECT_EQ(*parts_->streams.record_event(stream), first);
  EXPECT_EQ(calls(DeviceCall::kCreateEvent), 1U);
  parts_->streams.recycle(first);
  parts_->streams.destroy_events();
}

TEST_F(StreamMonitorTest, DestroyedStreamCausesNoDeferredError) {
  EngineLock lock(parts_->mutex);
  const StreamId stream = new_stream();
  must(device().destroy_stream(stream));
  expect_kind(parts_->streams.record_event(stream).status(), StatusKind::kInvalidArgument);
  EXPECT_FALSE(parts_->streams.is_idle(stream));
  EXPECT_TRUE(parts_->error.ok());
  parts_->streams.destroy_events();
}

TEST_F(StreamMonitorTest, QueriesNoStreamDuringCaptures) {
  EngineLock lock(parts_->mutex);
  const StreamId stream = new_stream();
  EXPECT_TRUE(parts_->streams.is_idle(stream));
  parts_->streams.frees().capture_began();
  forget_calls();
  EXPECT_FALSE(parts_->streams.is_idle(stream));
  EXPECT_EQ(calls(DeviceCall::kIsIdle), 0U);
  must(parts_->streams.frees().capture_ended());
  EXPECT_TRUE(parts_->streams.is_idle(stream));
}

TEST_F(StreamMonitorTest, DefersErrorsOfIdleQueries) {
  EngineLock lock(parts_->mutex);
  machine_->inject({.call = DeviceCall::kIsIdle});
  EXPECT_FALSE(parts_->streams.is_idle(new_stream()));
  EXPECT_FALSE(parts_->error.take().ok());
}

}  // namespace
}  // namespace ashlar::paged
