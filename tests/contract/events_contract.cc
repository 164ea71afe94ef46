// SPDX-License-Identifier: Apache-2.0
//
// Tests events: recording, completion and waiting.
#include <algorithm>
#include <cmath>
#include <set>

#include "device_contract.h"

namespace ashlar::contract {

TEST_P(EventsContract, UnrecordedEventIsDoneAndBlocksNothing) {
  const EventId event = create_event();
  const StreamId stream = create_stream();
  EXPECT_TRUE(require_ok(device().is_done(event)));
  EXPECT_TRUE(ok(device().synchronize_event(event)));
  EXPECT_TRUE(ok(device().wait_event(stream, event)));
  EXPECT_TRUE(ok(device().synchronize_stream(stream)));
}

TEST_P(EventsContract, EventIdsAreUnique) {
  std::set<EventId> ids;
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(ids.insert(create_event()).second);
}

TEST_P(EventsContract, EventIsDoneWhenPrecedingWorkIs) {
  const EventId event = create_event();
  const StreamId stream = create_stream();
  StreamGate& gate = block_stream(stream);
  require_ok(device().record_event(event, stream));
  EXPECT_TRUE(consistently([&] { return !require_ok(device().is_done(event)); }));
  gate.open();
  EXPECT_TRUE(eventually([&] { return require_ok(device().is_done(event)); }));
}

TEST_P(EventsContract, EventIgnoresLaterWork) {
  const EventId event = create_event();
  const StreamId stream = create_stream();
  const DeviceAddress address = allocate(4096);
  require_ok(device().fill(address, 6, 4096, stream));
  require_ok(device().record_event(event, stream));
  StreamGate& gate = block_stream(stream);
  EXPECT_TRUE(require_ok(device().is_done(event))) << "the stream has passed it";
  require_ok(device().synchronize_event(event));
  EXPECT_TRUE(gate.is_closed());
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 6));
}

TEST_P(EventsContract, SynchronizeEventWaitsForTheRecordedWork) {
  const EventId event = create_event();
  const StreamId stream = create_stream();
  StreamGate& gate = block_stream(stream);
  require_ok(device().record_event(event, stream));
  expect_waits_for(gate, [&] { return device().synchronize_event(event); });
  EXPECT_TRUE(require_ok(device().is_done(event)));
}

TEST_P(EventsContract, RecordingAgainReplacesTheRecordedWork) {
  const EventId event = create_event();
  const StreamId held = create_stream();
  const StreamId quiet = create_stream();
  StreamGate& gate = block_stream(held);
  require_ok(device().record_event(event, held));
  require_ok(device().record_event(event, quiet));
  EXPECT_TRUE(eventually([&] { return require_ok(device().is_done(event)); }));
  require_ok(device().record_event(event, held));
  EXPECT_FALSE(require_ok(device().is_done(event)));
  EXPECT_TRUE(gate.is_closed());
}

// --- wait_event

TEST_P(EventsContract, WaitEventOrdersStreamsWithoutBlockingTheHost) {
  const DeviceAddress source = allocate(4096);
  const DeviceAddress target = allocate(4096);
  write(source, Bytes(4096, 0));
  const StreamId writer = create_stream();
  const StreamId reader = create_stream();
  const EventId written = create_event();
  StreamGate& gate = block_stream(writer);
  require_ok(device().fill(source, 5, 4096, writer));
  require_ok(device().record_event(written, writer));
  require_ok(device().wait_event(reader, written));
  require_ok(device().copy(target, source, 4096, reader));
  EXPECT_TRUE(gate.is_closed()) << "the host waited";
  EXPECT_TRUE(stays_busy(reader));
  gate.open();
  require_ok(device().synchronize_stream(reader));
  EXPECT_EQ(read_back(target, 4096), Bytes(4096, 5));
}

TEST_P(EventsContract, WaitEventDoesNotDelayEarlierWork) {
  const DeviceAddress address = allocate(4096);
  const StreamId held = create_stream();
  const StreamId stream = create_stream();
  const EventId event = create_event();
  const EventId before = create_event();
  StreamGate& gate = block_stream(held);
  require_ok(device().record_event(event, held));
  require_ok(device().fill(address, 2, 4096, stream));
  require_ok(device().record_event(before, stream));
  require_ok(device().wait_event(stream, event));
  require_ok(device().synchronize_event(before));
  EXPECT_TRUE(gate.is_closed());
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 2));
}

TEST_P(EventsContract, QueuedWaitIgnoresALaterRecordOfLessWork) {
  const DeviceAddress source = allocate(4096);
  const DeviceAddress target = allocate(4096);
  write(source, Bytes(4096, 0));
  const StreamId writer = create_stream();
  const StreamId reader = create_stream();
  const StreamId quiet = create_stream();
  const EventId event = create_event();
  StreamGate& gate = block_stream(writer);
  require_ok(device().fill(source, 7, 4096, writer));
  require_ok(device().record_event(event, writer));
  require_ok(device().wait_event(reader, event));
  require_ok(device().copy(target, source, 4096, reader));
  require_ok(device().record_event(event, quiet));
  require_ok(device().synchronize_event(event));
  EXPECT_TRUE(stays_busy(reader)) << "the wait used the later record";
  gate.open();
  require_ok(device().synchronize_stream(reader));
  EXPECT_EQ(read_back(target, 4096), Bytes(4096, 7));
}

TEST_P(EventsContract, QueuedWaitIgnoresALaterRecordOfMoreWork) {
  const DeviceAddress address = allocate(4096);
  const StreamId first = create_stream();
  const StreamId later = create_stream();
  const StreamId waiting = create_stream();
  const EventId event = create_event();
  StreamGate& first_gate = block_stream(first);
  require_ok(device().record_event(event, first));
  require_ok(device().wait_event(waiting, event));
  require_ok(device().fill(address, 3, 4096, waiting));
  StreamGate& later_gate = block_stream_later(later);
  require_ok(device().record_event(event, later));
  first_gate.open();
  EXPECT_TRUE(becomes_idle(waiting)) << "the wait used the later record";
  EXPECT_FALSE(require_ok(device().is_done(event)));
  EXPECT_TRUE(later_gate.is_closed());
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 3));
}

TEST_P(EventsContract, QueuedWaitOutlivesItsEvent) {
  const DeviceAddress source = allocate(4096);
  const DeviceAddress target = allocate(4096);
  write(source, Bytes(4096, 0));
  const StreamId writer = create_stream();
  const StreamId reader = create_stream();
  const EventId event = create_event();
  StreamGate& gate = block_stream(writer);
  require_ok(device().fill(source, 9, 4096, writer));
  require_ok(device().record_event(event, writer));
  require_ok(device().wait_event(reader, event));
  require_ok(device().copy(target, source, 4096, reader));
  destroy_now(event);
  EXPECT_TRUE(gate.is_closed()) << "destroy_event waited";
  EXPECT_TRUE(stays_busy(reader));
  gate.open();
  require_ok(device().synchronize_stream(reader));
  EXPECT_EQ(read_back(target, 4096), Bytes(4096, 9));
}

TEST_P(EventsContract, QueuedWaitOutlivesTheRecordedStream) {
  const DeviceAddress address = allocate(4096);
  const StreamId first = create_stream();
  const StreamId second = create_stream();
  const EventId event = create_event();
  StreamGate& gate = block_stream(first);
  require_ok(device().record_event(event, first));
  destroy_now(first);
  require_ok(device().wait_event(second, event));
  require_ok(device().fill(address, 1, 4096, second));
  EXPECT_TRUE(stays_busy(second));
  EXPECT_FALSE(require_ok(device().is_done(event)));
  gate.open();
  require_ok(device().synchronize_stream(second));
  EXPECT_TRUE(require_ok(device().is_done(event)));
}

TEST_P(EventsContract, StreamWaitsForAnEventOfAnotherDevice) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const DeviceAddress mine = allocate(4096);
  const DeviceAddress theirs = allocate(4096, other());
  uint8_t* host = allocate_pinned_bytes(4096);
  std::fill_n(host, 4096, uint8_t{0});
  const StreamId writer = create_stream();
  const StreamId reader = create_stream(other());
  const EventId event = create_event();
  StreamGate& gate = block_stream(writer);
  require_ok(device().fill(mine, 6, 4096, writer));
  require_ok(device().copy_to_host(host, mine, 4096, writer));
  require_ok(device().record_event(event, writer));
  require_ok(other().wait_event(reader, event));
  require_ok(other().copy_to_device(theirs, host, 4096, reader));
  EXPECT_TRUE(stays_busy(reader, other()));
  EXPECT_TRUE(gate.is_closed());
  gate.open();
  require_ok(other().synchronize_stream(reader));
  EXPECT_EQ(read_back(theirs, 4096, other()), Bytes(4096, 6));
}

// --- elapsed_ms

TEST_P(EventsContract, ElapsedTimeGrowsAlongTheStream) {
  const StreamId stream = create_stream();
  const DeviceAddress address = allocate(granule_bytes());
  EventId events[3];
  for (EventId& event : events) {
    event = create_event({.timing = true});
    require_ok(device().record_event(event, stream));
    require_ok(device().fill(address, 1, granule_bytes(), stream));
  }
  require_ok(device().synchronize_stream(stream));
  const double shorter = require_ok(device().elapsed_ms(events[0], events[1]));
  const double longer = require_ok(device().elapsed_ms(events[0], events[2]));
  EXPECT_TRUE(std::isfinite(longer));
  EXPECT_GE(shorter, 0.0);
  EXPECT_GE(longer, shorter);
  EXPECT_EQ(require_ok(device().elapsed_ms(events[0], events[0])), 0.0);
}

TEST_P(EventsContract, ElapsedTimeRequiresTimedFinishedEvents) {
  const StreamId stream = create_stream();
  const EventId done = create_event({.timing = true});
  const EventId untimed = create_event();
  const EventId unrecorded = create_event({.timing = true});
  const EventId unfinished = create_event({.timing = true});
  require_ok(device().record_event(done, stream));
  require_ok(device().record_event(untimed, stream));
  require_ok(device().synchronize_stream(stream));
  StreamGate& gate = block_stream(stream);
  require_ok(device().record_event(unfinished, stream));
  for (const EventId wrong : {untimed, unrecorded, unfinished, unknown_id<EventId>()}) {
    SCOPED_TRACE(wrong.value());
    expect_invalid_argument(device().elapsed_ms(done, wrong));
    expect_invalid_argument(device().elapsed_ms(wrong, done));
  }
  gate.open();
  require_ok(device().synchronize_stream(stream));
  EXPECT_TRUE(ok(device().elapsed_ms(done, unfinished))) << "it must have finished";
}

// --- invalid arguments

TEST_P(EventsContract, RejectsUnknownAndDestroyedEvents) {
  const StreamId stream = create_stream();
  const EventId good = create_event({.timing = true});
  const EventId destroyed = require_ok(device().create_event({.timing = true}));
  require_ok(device().destroy_event(destroyed));
  const MemoryUnchangedCheck unchanged(*this);
  for (const EventId event : {unknown_id<EventId>(), destroyed}) {
    expect_invalid_argument(device().destroy_event(event));
    expect_invalid_argument(device().record_event(event, stream));
    expect_invalid_argument(device().is_done(event));
    expect_invalid_argument(device().synchronize_event(event));
    expect_invalid_argument(device().wait_event(stream, event));
    expect_invalid_argument(device().elapsed_ms(event, good));
    expect_invalid_argument(device().elapsed_ms(good, event));
  }
  EXPECT_TRUE(require_ok(device().is_idle(stream)));
}

TEST_P(EventsContract, OnlyWaitEventAcceptsAnotherDevicesEvent) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const StreamId stream = create_stream();
  const EventId mine = create_event({.timing = true});
  const EventId theirs = create_event(other(), {.timing = true});
  require_ok(device().record_event(mine, stream));
  require_ok(other().record_event(theirs, kDefaultStream));
  require_ok(device().synchronize_device());
  require_ok(other().synchronize_device());
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().destroy_event(theirs));
    expect_invalid_argument(device().record_event(theirs, stream));
    expect_invalid_argument(device().is_done(theirs));
    expect_invalid_argument(device().synchronize_event(theirs));
    expect_invalid_argument(device().elapsed_ms(mine, theirs));
    expect_invalid_argument(device().elapsed_ms(theirs, mine));
  }
  EXPECT_TRUE(ok(device().wait_event(stream, theirs)));
  EXPECT_TRUE(require_ok(other().is_done(theirs)));
}

}  // namespace ashlar::contract
