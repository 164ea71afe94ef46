// SPDX-License-Identifier: Apache-2.0
//
// Tests of idle queries, captures, and events of streams.
#include "engine/paged/stream_monitor.h"

#include "unit/engine/paged/components_fixture.h"

namespace ashlar::paged {
namespace {

class StreamMonitorTest : public ComponentsFixture {};

TEST_F(StreamMonitorTest, ReusesEvents) {
  EngineLock lock(components_->mutex);
  const StreamId stream = busy_stream();
  const EventId first = *components_->streams.record_event(stream);
  EXPECT_FALSE(components_->streams.recycle_if_done(first));
  finish(stream);
  EXPECT_TRUE(components_->streams.recycle_if_done(first));
  EXPECT_EQ(*components_->streams.record_event(stream), first);
  EXPECT_EQ(calls(DeviceCall::kCreateEvent), 1U);
  components_->streams.recycle(first);
  components_->streams.destroy_events();
}

TEST_F(StreamMonitorTest, DestroyedStreamCausesNoDeferredError) {
  EngineLock lock(components_->mutex);
  const StreamId stream = new_stream();
  must(device().destroy_stream(stream));
  expect_kind(components_->streams.record_event(stream).status(), StatusKind::kInvalidArgument);
  EXPECT_FALSE(components_->streams.is_idle(stream));
  EXPECT_TRUE(components_->error.ok());
  components_->streams.destroy_events();
}

TEST_F(StreamMonitorTest, QueriesNoStreamDuringCaptures) {
  EngineLock lock(components_->mutex);
  const StreamId stream = new_stream();
  EXPECT_TRUE(components_->streams.is_idle(stream));
  components_->streams.frees().capture_began();
  reset_call_counts();
  EXPECT_FALSE(components_->streams.is_idle(stream));
  EXPECT_EQ(calls(DeviceCall::kIsIdle), 0U);
  must(components_->streams.frees().capture_ended());
  EXPECT_TRUE(components_->streams.is_idle(stream));
}

TEST_F(StreamMonitorTest, DefersErrorsOfIdleQueries) {
  EngineLock lock(components_->mutex);
  machine_->inject({.call = DeviceCall::kIsIdle});
  EXPECT_FALSE(components_->streams.is_idle(new_stream()));
  EXPECT_FALSE(components_->error.take().ok());
}

}  // namespace
}  // namespace ashlar::paged
