// SPDX-License-Identifier: Apache-2.0
//
// Events: what they mean, when they are done, and who can wait for them.
#include <algorithm>
#include <cmath>
#include <set>

#include "device_contract.h"

namespace ashlar::contract {

TEST_P(EventsContract, AnEventThatWasNeverRecordedIsDoneAndHoldsNobody) {
  const EventId event = new_event();
  const StreamId stream = new_stream();
  EXPECT_TRUE(must(device().is_done(event)));
  EXPECT_TRUE(ok(device().synchronize_event(event)));
  EXPECT_TRUE(ok(device().wait_event(stream, event)));
  EXPECT_TRUE(ok(device().synchronize_stream(stream)));
}

TEST_P(EventsContract, EventsHaveDifferentIds) {
  std::set<EventId> ids;
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(ids.insert(new_event()).second);
}

TEST_P(EventsContract, AnEventIsDoneWhenTheWorkBeforeItIs) {
  const EventId event = new_event();
  const StreamId stream = new_stream();
  Gate& gate = hold(stream);
  must(device().record_event(event, stream));
  EXPECT_TRUE(stays([&] { return !must(device().is_done(event)); }));
  gate.open();
  EXPECT_TRUE(eventually([&] { return must(device().is_done(event)); }));
}

TEST_P(EventsContract, AnEventDoesNotMeanTheWorkAfterIt) {
  const EventId event = new_event();
  const StreamId stream = new_stream();
  const DeviceAddress address = allocated(4096);
  must(device().fill(address, 6, 4096, stream));
  must(device().record_event(event, stream));
  Gate& gate = hold(stream);
  EXPECT_TRUE(must(device().is_done(event))) << "the stream has got past it";
  must(device().synchronize_event(event));
  EXPECT_TRUE(gate.is_closed());
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 6));
}

TEST_P(EventsContract, SynchronizeEventWaitsForWhatTheEventMeans) {
  const EventId event = new_event();
  const StreamId stream = new_stream();
  Gate& gate = hold(stream);
  must(device().record_event(event, stream));
  expect_waits_for(gate, [&] { return device().synchronize_event(event); });
  EXPECT_TRUE(must(device().is_done(event)));
}

TEST_P(EventsContract, RecordingAgainGivesTheEventANewMeaning) {
  const EventId event = new_event();
  const StreamId held = new_stream();
  const StreamId quiet = new_stream();
  Gate& gate = hold(held);
  must(device().record_event(event, held));
  must(device().record_event(event, quiet));
  EXPECT_TRUE(eventually([&] { return must(device().is_done(event)); }));
  must(device().record_event(event, held));
  EXPECT_FALSE(must(device().is_done(event)));
  EXPECT_TRUE(gate.is_closed());
}

// --- wait_event ---------------------------------------------------------------------------------

TEST_P(EventsContract, AWaitOrdersTwoStreamsWithoutHoldingTheHost) {
  const DeviceAddress source = allocated(4096);
  const DeviceAddress target = allocated(4096);
  write(source, Bytes(4096, 0));
  const StreamId writer = new_stream();
  const StreamId reader = new_stream();
  const EventId written = new_event();
  Gate& gate = hold(writer);
  must(device().fill(source, 5, 4096, writer));
  must(device().record_event(written, writer));
  must(device().wait_event(reader, written));
  must(device().copy(target, source, 4096, reader));
  EXPECT_TRUE(gate.is_closed()) << "the host waited";
  EXPECT_TRUE(stays_busy(reader));
  gate.open();
  must(device().synchronize_stream(reader));
  EXPECT_EQ(read_back(target, 4096), Bytes(4096, 5));
}

TEST_P(EventsContract, WorkQueuedBeforeAWaitIsNotHeld) {
  const DeviceAddress address = allocated(4096);
  const StreamId held = new_stream();
  const StreamId stream = new_stream();
  const EventId event = new_event();
  const EventId before = new_event();
  Gate& gate = hold(held);
  must(device().record_event(event, held));
  must(device().fill(address, 2, 4096, stream));
  must(device().record_event(before, stream));
  must(device().wait_event(stream, event));
  must(device().synchronize_event(before));
  EXPECT_TRUE(gate.is_closed());
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 2));
}

TEST_P(EventsContract, AQueuedWaitKeepsItsMeaningWhenTheEventIsRecordedForLess) {
  const DeviceAddress source = allocated(4096);
  const DeviceAddress target = allocated(4096);
  write(source, Bytes(4096, 0));
  const StreamId writer = new_stream();
  const StreamId reader = new_stream();
  const StreamId quiet = new_stream();
  const EventId event = new_event();
  Gate& gate = hold(writer);
  must(device().fill(source, 7, 4096, writer));
  must(device().record_event(event, writer));
  must(device().wait_event(reader, event));
  must(device().copy(target, source, 4096, reader));
  must(device().record_event(event, quiet));
  must(device().synchronize_event(event));
  EXPECT_TRUE(stays_busy(reader)) << "the wait took the event's new meaning";
  gate.open();
  must(device().synchronize_stream(reader));
  EXPECT_EQ(read_back(target, 4096), Bytes(4096, 7));
}

TEST_P(EventsContract, AQueuedWaitKeepsItsMeaningWhenTheEventIsRecordedForMore) {
  const DeviceAddress address = allocated(4096);
  const StreamId first = new_stream();
  const StreamId later = new_stream();
  const StreamId waiting = new_stream();
  const EventId event = new_event();
  Gate& first_gate = hold(first);
  must(device().record_event(event, first));
  must(device().wait_event(waiting, event));
  must(device().fill(address, 3, 4096, waiting));
  Gate& later_gate = hold_later(later);
  must(device().record_event(event, later));
  first_gate.open();
  EXPECT_TRUE(becomes_idle(waiting)) << "the wait took the event's new meaning";
  EXPECT_FALSE(must(device().is_done(event)));
  EXPECT_TRUE(later_gate.is_closed());
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 3));
}

TEST_P(EventsContract, AQueuedWaitOutlivesItsEvent) {
  const DeviceAddress source = allocated(4096);
  const DeviceAddress target = allocated(4096);
  write(source, Bytes(4096, 0));
  const StreamId writer = new_stream();
  const StreamId reader = new_stream();
  const EventId event = new_event();
  Gate& gate = hold(writer);
  must(device().fill(source, 9, 4096, writer));
  must(device().record_event(event, writer));
  must(device().wait_event(reader, event));
  must(device().copy(target, source, 4096, reader));
  destroy_now(event);
  EXPECT_TRUE(gate.is_closed()) << "destroy_event waited";
  EXPECT_TRUE(stays_busy(reader));
  gate.open();
  must(device().synchronize_stream(reader));
  EXPECT_EQ(read_back(target, 4096), Bytes(4096, 9));
}

TEST_P(EventsContract, AWaitOutlivesTheStreamTheEventWasRecordedIn) {
  const DeviceAddress address = allocated(4096);
  const StreamId first = new_stream();
  const StreamId second = new_stream();
  const EventId event = new_event();
  Gate& gate = hold(first);
  must(device().record_event(event, first));
  destroy_now(first);
  must(device().wait_event(second, event));
  must(device().fill(address, 1, 4096, second));
  EXPECT_TRUE(stays_busy(second));
  EXPECT_FALSE(must(device().is_done(event)));
  gate.open();
  must(device().synchronize_stream(second));
  EXPECT_TRUE(must(device().is_done(event)));
}

TEST_P(EventsContract, AStreamWaitsForAnEventOfAnotherDevice) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const DeviceAddress mine = allocated(4096);
  const DeviceAddress theirs = allocated(4096, other());
  uint8_t* host = pinned_bytes(4096);
  std::fill_n(host, 4096, uint8_t{0});
  const StreamId writer = new_stream();
  const StreamId reader = new_stream(other());
  const EventId event = new_event();
  Gate& gate = hold(writer);
  must(device().fill(mine, 6, 4096, writer));
  must(device().copy_to_host(host, mine, 4096, writer));
  must(device().record_event(event, writer));
  must(other().wait_event(reader, event));
  must(other().copy_to_device(theirs, host, 4096, reader));
  EXPECT_TRUE(stays_busy(reader, other()));
  EXPECT_TRUE(gate.is_closed());
  gate.open();
  must(other().synchronize_stream(reader));
  EXPECT_EQ(read_back(theirs, 4096, other()), Bytes(4096, 6));
}

// --- elapsed_ms ---------------------------------------------------------------------------------

TEST_P(EventsContract, ElapsedTimeIsNotNegativeAndGrowsAlongTheStream) {
  const StreamId stream = new_stream();
  const DeviceAddress address = allocated(granule_bytes());
  EventId events[3];
  for (EventId& event : events) {
    event = new_event({.timing = true});
    must(device().record_event(event, stream));
    must(device().fill(address, 1, granule_bytes(), stream));
  }
  must(device().synchronize_stream(stream));
  const double shorter = must(device().elapsed_ms(events[0], events[1]));
  const double longer = must(device().elapsed_ms(events[0], events[2]));
  EXPECT_TRUE(std::isfinite(longer));
  EXPECT_GE(shorter, 0.0);
  EXPECT_GE(longer, shorter);
  EXPECT_EQ(must(device().elapsed_ms(events[0], events[0])), 0.0);
}

TEST_P(EventsContract, ElapsedTimeNeedsTimedRecordedAndFinishedEvents) {
  const StreamId stream = new_stream();
  const EventId done = new_event({.timing = true});
  const EventId untimed = new_event();
  const EventId unrecorded = new_event({.timing = true});
  const EventId unfinished = new_event({.timing = true});
  must(device().record_event(done, stream));
  must(device().record_event(untimed, stream));
  must(device().synchronize_stream(stream));
  Gate& gate = hold(stream);
  must(device().record_event(unfinished, stream));
  for (const EventId wrong : {untimed, unrecorded, unfinished, never_given<EventId>()}) {
    SCOPED_TRACE(wrong.value());
    expect_usage(device().elapsed_ms(done, wrong));
    expect_usage(device().elapsed_ms(wrong, done));
  }
  gate.open();
  must(device().synchronize_stream(stream));
  EXPECT_TRUE(ok(device().elapsed_ms(done, unfinished))) << "it has finished now";
}

// --- misuse -------------------------------------------------------------------------------------

TEST_P(EventsContract, EveryFunctionRefusesAnEventThatWasNeverGivenOutOrIsDestroyed) {
  const StreamId stream = new_stream();
  const EventId good = new_event({.timing = true});
  const EventId destroyed = must(device().create_event({.timing = true}));
  must(device().destroy_event(destroyed));
  const Untouched untouched(*this);
  for (const EventId event : {never_given<EventId>(), destroyed}) {
    expect_usage(device().destroy_event(event));
    expect_usage(device().record_event(event, stream));
    expect_usage(device().is_done(event));
    expect_usage(device().synchronize_event(event));
    expect_usage(device().wait_event(stream, event));
    expect_usage(device().elapsed_ms(event, good));
    expect_usage(device().elapsed_ms(good, event));
  }
  EXPECT_TRUE(must(device().is_idle(stream)));
}

TEST_P(EventsContract, OnlyWaitEventTakesAnEventOfAnotherDevice) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const StreamId stream = new_stream();
  const EventId mine = new_event({.timing = true});
  const EventId theirs = new_event(other(), {.timing = true});
  must(device().record_event(mine, stream));
  must(other().record_event(theirs, kDefaultStream));
  must(device().synchronize_device());
  must(other().synchronize_device());
  {
    const Untouched untouched(*this);
    expect_usage(device().destroy_event(theirs));
    expect_usage(device().record_event(theirs, stream));
    expect_usage(device().is_done(theirs));
    expect_usage(device().synchronize_event(theirs));
    expect_usage(device().elapsed_ms(mine, theirs));
    expect_usage(device().elapsed_ms(theirs, mine));
  }
  EXPECT_TRUE(ok(device().wait_event(stream, theirs)));
  EXPECT_TRUE(must(other().is_done(theirs)));
}

}  // namespace ashlar::contract
