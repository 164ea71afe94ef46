// SPDX-License-Identifier: Apache-2.0
//
// Streams: order within one, independence of two, waiting for them, and their end.
#include <atomic>
#include <numeric>
#include <set>
#include <vector>

#include "device_contract.h"

namespace ashlar::contract {

TEST_P(StreamsContract, StreamsHaveDifferentIdsAndNoneIsTheDefault) {
  std::set<StreamId> ids = {kDefaultStream};
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(ids.insert(new_stream()).second);
}

TEST_P(StreamsContract, EveryPriorityOfTheDeviceIsAccepted) {
  for (int priority = 0; priority <= properties().greatest_priority; ++priority) {
    const StreamId stream = must(device().create_stream({.priority = priority}));
    EXPECT_TRUE(ok(device().call_host(stream, [] {})));
    EXPECT_TRUE(ok(device().synchronize_stream(stream)));
    EXPECT_TRUE(ok(device().destroy_stream(stream)));
  }
}

TEST_P(StreamsContract, CreateStreamRefusesPrioritiesTheDeviceDoesNotHave) {
  const Untouched untouched(*this);
  expect_usage(device().create_stream({.priority = -1}));
  expect_usage(device().create_stream({.priority = properties().greatest_priority + 1}));
}

TEST_P(StreamsContract, TheDefaultStreamIsThereFromTheStart) {
  const DeviceAddress address = allocated(4096);
  must(device().fill(address, 9, 4096, kDefaultStream));
  must(device().synchronize_stream(kDefaultStream));
  EXPECT_TRUE(must(device().is_idle(kDefaultStream)));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 9));
}

TEST_P(StreamsContract, TheDefaultStreamCannotBeDestroyed) {
  expect_usage(device().destroy_stream(kDefaultStream));
  EXPECT_TRUE(ok(device().synchronize_stream(kDefaultStream)));
}

// --- order --------------------------------------------------------------------------------------

TEST_P(StreamsContract, HostFunctionsOfOneStreamRunOnceEachInOrder) {
  constexpr int kCount = 200;
  const StreamId stream = new_stream();
  std::vector<int> seen;
  for (int i = 0; i < kCount; ++i) {
    must(device().call_host(stream, [&seen, i] { seen.push_back(i); }));
  }
  must(device().synchronize_stream(stream));
  std::vector<int> wanted(kCount);
  std::iota(wanted.begin(), wanted.end(), 0);
  EXPECT_EQ(seen, wanted);
}

TEST_P(StreamsContract, DifferentKindsOfWorkInOneStreamRunInOrder) {
  constexpr size_t kBytes = 100'000;
  const DeviceAddress first = allocated(kBytes);
  const DeviceAddress second = allocated(kBytes);
  uint8_t* host = pinned_bytes(kBytes);
  const StreamId stream = new_stream();
  uint8_t seen_by_function = 0;
  must(device().fill(first, 1, kBytes, stream));
  must(device().copy(second, first, kBytes, stream));
  must(device().fill(first, 2, kBytes, stream));
  must(device().copy_to_host(host, second, kBytes, stream));
  must(device().call_host(stream, [&] { seen_by_function = host[kBytes - 1]; }));
  must(device().copy_to_host(host, first, kBytes, stream));
  must(device().synchronize_stream(stream));
  EXPECT_EQ(seen_by_function, 1);
  EXPECT_EQ(Bytes(host, host + kBytes), Bytes(kBytes, 2));
}

TEST_P(StreamsContract, AHeldStreamHoldsNoOther) {
  const DeviceAddress address = allocated(4096);
  const StreamId held = new_stream();
  const StreamId free_stream = new_stream();
  Gate& gate = hold(held);
  must(device().fill(address, 4, 4096, free_stream));
  must(device().synchronize_stream(free_stream));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 4));
  EXPECT_TRUE(gate.is_closed());
}

// --- waiting ------------------------------------------------------------------------------------

TEST_P(StreamsContract, AStreamIsIdleWhenItsLastPieceHasFinishedAndNotBefore) {
  const StreamId stream = new_stream();
  EXPECT_TRUE(must(device().is_idle(stream)));
  Gate& running = hold(stream);
  EXPECT_TRUE(stays_busy(stream)) << "its last piece is still running";
  running.open();
  EXPECT_TRUE(becomes_idle(stream));
}

TEST_P(StreamsContract, AStreamWithWorkBehindTheRunningPieceIsNotIdle) {
  const DeviceAddress address = allocated(4096);
  const StreamId stream = new_stream();
  Gate& gate = hold(stream);
  must(device().fill(address, 3, 4096, stream));
  EXPECT_FALSE(must(device().is_idle(stream)));
  gate.open();
  ASSERT_TRUE(becomes_idle(stream));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 3));
}

TEST_P(StreamsContract, SynchronizeStreamWaitsForItsWork) {
  const StreamId stream = new_stream();
  Gate& gate = hold(stream);
  expect_waits_for(gate, [&] { return device().synchronize_stream(stream); });
  EXPECT_TRUE(must(device().is_idle(stream)));
}

TEST_P(StreamsContract, AStreamIsIdleAsSoonAsItWasWaitedFor) {
  const StreamId stream = new_stream();
  const EventId event = new_event();
  for (int round = 0; round < 300; ++round) {
    must(device().call_host(stream, [] {}));
    must(device().synchronize_stream(stream));
    ASSERT_TRUE(must(device().is_idle(stream))) << "in round " << round;
    must(device().call_host(stream, [] {}));
    must(device().record_event(event, stream));
    must(device().synchronize_device());
    ASSERT_TRUE(must(device().is_idle(stream))) << "in round " << round;
    ASSERT_TRUE(must(device().is_done(event))) << "in round " << round;
  }
}

TEST_P(StreamsContract, SynchronizeDeviceWaitsForEveryStream) {
  const StreamId busy = new_stream();
  new_stream();
  Gate& gate = hold(busy);
  expect_waits_for(gate, [&] { return device().synchronize_device(); });
  EXPECT_TRUE(must(device().is_idle(busy)));
}

TEST_P(StreamsContract, SynchronizeDeviceDoesNotWaitForAnotherDevice) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const StreamId theirs = new_stream(other());
  Gate& gate = hold(theirs, other());
  must(device().synchronize_device());
  EXPECT_TRUE(gate.is_closed());
}

// --- the end of a stream ------------------------------------------------------------------------

TEST_P(StreamsContract, WorkQueuedBeforeAStreamIsDestroyedStillRuns) {
  const DeviceAddress address = allocated(4096);
  const StreamId stream = new_stream();
  write(address, Bytes(4096, 0));
  const EventId filled = new_event();
  Gate& gate = hold(stream);
  must(device().fill(address, 8, 4096, stream));
  must(device().record_event(filled, stream));
  destroy_now(stream);
  EXPECT_TRUE(gate.is_closed()) << "destroy_stream waited";
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 0));
  gate.open();
  must(device().synchronize_event(filled));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 8));
}

TEST_P(StreamsContract, SynchronizeDeviceWaitsForTheWorkOfADestroyedStream) {
  const StreamId stream = new_stream();
  Gate& gate = hold(stream);
  destroy_now(stream);
  expect_waits_for(gate, [&] { return device().synchronize_device(); });
}

// Calls every function that takes a stream with one that it must refuse.
void expect_stream_is_refused(Device& device, StreamId stream, DeviceAddress address, EventId event,
                              uint8_t* host, const std::function<void(const Status&)>& expect) {
  expect(device.is_idle(stream).status());
  expect(device.synchronize_stream(stream));
  expect(device.destroy_stream(stream));
  expect(device.record_event(event, stream));
  expect(device.wait_event(stream, event));
  expect(device.copy_to_device(address, host, 16, stream));
  expect(device.copy_to_host(host, address, 16, stream));
  expect(device.copy(address, address + 64, 16, stream));
  expect(device.fill(address, 1, 16, stream));
  expect(device.call_host(stream, [] { ADD_FAILURE() << "a refused function ran"; }));
  if (device.properties().has_stream_pool) {
    expect(device.allocate_async(4096, stream).status());
  }
  if (device.properties().has_capture) {
    expect(device.begin_capture(stream, CaptureMode::kThreadLocal));
    expect(device.end_capture(stream).status());
    expect(device.capture_state(stream).status());
  }
}

// Every device knows those that it has destroyed itself; a driver may crash with their handles.
TEST_P(StreamsContract, EveryFunctionRefusesAStreamThatWasNeverGivenOutOrIsDestroyed) {
  const DeviceAddress address = allocated(4096);
  const EventId event = new_event();
  uint8_t* host = pinned_bytes(16);
  const StreamId destroyed = must(device().create_stream());
  must(device().destroy_stream(destroyed));
  const Untouched untouched(*this);
  std::vector<StreamId> refused = {destroyed};
  if (properties().checks_stream_ids) refused.push_back(never_given<StreamId>());
  for (const StreamId stream : refused) {
    expect_stream_is_refused(device(), stream, address, event, host,
                             [this](const Status& status) { expect_usage(status); });
    if (has_other()) {
      expect_usage(device().copy_to_peer(other().properties().index, address, address, 16, stream));
    }
  }
  EXPECT_TRUE(must(device().is_done(event))) << "it was not recorded";
}

TEST_P(StreamsContract, EveryFunctionRefusesAStreamOfAnotherDevice) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  if (!properties().checks_stream_ids) GTEST_SKIP() << "the device cannot tell foreign streams";
  const DeviceAddress address = allocated(4096);
  const EventId event = new_event();
  uint8_t* host = pinned_bytes(16);
  const StreamId theirs = new_stream(other());
  {
    const Untouched untouched(*this);
    expect_stream_is_refused(device(), theirs, address, event, host,
                             [this](const Status& status) { expect_usage(status); });
  }
  EXPECT_TRUE(ok(other().synchronize_stream(theirs))) << "it still serves its own device";
}

}  // namespace ashlar::contract
