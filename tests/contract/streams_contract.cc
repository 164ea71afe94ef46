// SPDX-License-Identifier: Apache-2.0
//
// Tests streams: order, independence, synchronization and destruction.
#include <atomic>
#include <numeric>
#include <set>
#include <vector>

#include "device_contract.h"

namespace ashlar::contract {

TEST_P(StreamsContract, StreamIdsAreUniqueAndNotTheDefault) {
  std::set<StreamId> ids = {kDefaultStream};
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(ids.insert(create_stream()).second);
}

TEST_P(StreamsContract, AcceptsEveryPriorityOfTheDevice) {
  for (int priority = 0; priority <= properties().greatest_priority; ++priority) {
    const StreamId stream = require_ok(device().create_stream({.priority = priority}));
    EXPECT_TRUE(ok(device().call_host(stream, [] {})));
    EXPECT_TRUE(ok(device().synchronize_stream(stream)));
    EXPECT_TRUE(ok(device().destroy_stream(stream)));
  }
}

TEST_P(StreamsContract, CreateStreamRejectsInvalidPriorities) {
  const MemoryUnchangedCheck unchanged(*this);
  expect_invalid_argument(device().create_stream({.priority = -1}));
  expect_invalid_argument(device().create_stream({.priority = properties().greatest_priority + 1}));
}

TEST_P(StreamsContract, DefaultStreamAlwaysExists) {
  const DeviceAddress address = allocate(4096);
  require_ok(device().fill(address, 9, 4096, kDefaultStream));
  require_ok(device().synchronize_stream(kDefaultStream));
  EXPECT_TRUE(require_ok(device().is_idle(kDefaultStream)));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 9));
}

TEST_P(StreamsContract, DestroyStreamRejectsTheDefaultStream) {
  expect_invalid_argument(device().destroy_stream(kDefaultStream));
  EXPECT_TRUE(ok(device().synchronize_stream(kDefaultStream)));
}

// --- order

TEST_P(StreamsContract, HostFunctionsRunOnceInStreamOrder) {
  constexpr int kCount = 200;
  const StreamId stream = create_stream();
  std::vector<int> seen;
  for (int i = 0; i < kCount; ++i) {
    require_ok(device().call_host(stream, [&seen, i] { seen.push_back(i); }));
  }
  require_ok(device().synchronize_stream(stream));
  std::vector<int> wanted(kCount);
  std::iota(wanted.begin(), wanted.end(), 0);
  EXPECT_EQ(seen, wanted);
}

TEST_P(StreamsContract, MixedWorkRunsInStreamOrder) {
  constexpr size_t kBytes = 100'000;
  const DeviceAddress first = allocate(kBytes);
  const DeviceAddress second = allocate(kBytes);
  uint8_t* host = allocate_pinned_bytes(kBytes);
  const StreamId stream = create_stream();
  uint8_t seen_by_function = 0;
  require_ok(device().fill(first, 1, kBytes, stream));
  require_ok(device().copy(second, first, kBytes, stream));
  require_ok(device().fill(first, 2, kBytes, stream));
  require_ok(device().copy_to_host(host, second, kBytes, stream));
  require_ok(device().call_host(stream, [&] { seen_by_function = host[kBytes - 1]; }));
  require_ok(device().copy_to_host(host, first, kBytes, stream));
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(seen_by_function, 1);
  EXPECT_EQ(Bytes(host, host + kBytes), Bytes(kBytes, 2));
}

TEST_P(StreamsContract, BlockedStreamDoesNotBlockOthers) {
  const DeviceAddress address = allocate(4096);
  const StreamId held = create_stream();
  const StreamId free_stream = create_stream();
  StreamGate& gate = block_stream(held);
  require_ok(device().fill(address, 4, 4096, free_stream));
  require_ok(device().synchronize_stream(free_stream));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 4));
  EXPECT_TRUE(gate.is_closed());
}

// --- synchronization

TEST_P(StreamsContract, StreamIsIdleOnlyAfterItsLastWorkFinishes) {
  const StreamId stream = create_stream();
  EXPECT_TRUE(require_ok(device().is_idle(stream)));
  StreamGate& running = block_stream(stream);
  EXPECT_TRUE(stays_busy(stream)) << "its last piece of work is still running";
  running.open();
  EXPECT_TRUE(becomes_idle(stream));
}

TEST_P(StreamsContract, StreamWithQueuedWorkIsNotIdle) {
  const DeviceAddress address = allocate(4096);
  const StreamId stream = create_stream();
  StreamGate& gate = block_stream(stream);
  require_ok(device().fill(address, 3, 4096, stream));
  EXPECT_FALSE(require_ok(device().is_idle(stream)));
  gate.open();
  ASSERT_TRUE(becomes_idle(stream));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 3));
}

TEST_P(StreamsContract, SynchronizeStreamWaitsForItsWork) {
  const StreamId stream = create_stream();
  StreamGate& gate = block_stream(stream);
  expect_waits_for(gate, [&] { return device().synchronize_stream(stream); });
  EXPECT_TRUE(require_ok(device().is_idle(stream)));
}

TEST_P(StreamsContract, StreamIsIdleAfterSynchronization) {
  const StreamId stream = create_stream();
  const EventId event = create_event();
  for (int round = 0; round < 300; ++round) {
    require_ok(device().call_host(stream, [] {}));
    require_ok(device().synchronize_stream(stream));
    ASSERT_TRUE(require_ok(device().is_idle(stream))) << "in round " << round;
    require_ok(device().call_host(stream, [] {}));
    require_ok(device().record_event(event, stream));
    require_ok(device().synchronize_device());
    ASSERT_TRUE(require_ok(device().is_idle(stream))) << "in round " << round;
    ASSERT_TRUE(require_ok(device().is_done(event))) << "in round " << round;
  }
}

TEST_P(StreamsContract, SynchronizeDeviceWaitsForEveryStream) {
  const StreamId busy = create_stream();
  create_stream();
  StreamGate& gate = block_stream(busy);
  expect_waits_for(gate, [&] { return device().synchronize_device(); });
  EXPECT_TRUE(require_ok(device().is_idle(busy)));
}

TEST_P(StreamsContract, SynchronizeDeviceIgnoresOtherDevices) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const StreamId theirs = create_stream(other());
  StreamGate& gate = block_stream(theirs, other());
  require_ok(device().synchronize_device());
  EXPECT_TRUE(gate.is_closed());
}

// --- destruction

TEST_P(StreamsContract, QueuedWorkRunsAfterItsStreamIsDestroyed) {
  const DeviceAddress address = allocate(4096);
  const StreamId stream = create_stream();
  write(address, Bytes(4096, 0));
  const EventId filled = create_event();
  StreamGate& gate = block_stream(stream);
  require_ok(device().fill(address, 8, 4096, stream));
  require_ok(device().record_event(filled, stream));
  destroy_now(stream);
  EXPECT_TRUE(gate.is_closed()) << "destroy_stream waited";
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 0));
  gate.open();
  require_ok(device().synchronize_event(filled));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 8));
}

TEST_P(StreamsContract, SynchronizeDeviceWaitsForDestroyedStreams) {
  const StreamId stream = create_stream();
  StreamGate& gate = block_stream(stream);
  destroy_now(stream);
  expect_waits_for(gate, [&] { return device().synchronize_device(); });
}

// Expects that all functions that take a stream, except copy_to_peer, free_async and launch_graph,
// reject `stream`.
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
  expect(device.call_host(stream, [] { ADD_FAILURE() << "a rejected function ran"; }));
  if (device.properties().has_stream_ordered_pool) {
    expect(device.allocate_async(4096, stream).status());
  }
  if (device.properties().has_capture) {
    expect(device.begin_capture(stream, CaptureMode::kThreadLocal));
    expect(device.end_capture(stream).status());
    expect(device.capture_state(stream).status());
  }
}

// A driver may crash on destroyed handles, so every device must reject the streams it destroyed.
TEST_P(StreamsContract, RejectsUnknownAndDestroyedStreams) {
  const DeviceAddress address = allocate(4096);
  const EventId event = create_event();
  uint8_t* host = allocate_pinned_bytes(16);
  const StreamId destroyed = require_ok(device().create_stream());
  require_ok(device().destroy_stream(destroyed));
  const MemoryUnchangedCheck unchanged(*this);
  std::vector<StreamId> refused = {destroyed};
  if (properties().checks_stream_ids) refused.push_back(unknown_id<StreamId>());
  for (const StreamId stream : refused) {
    expect_stream_is_refused(device(), stream, address, event, host,
                             [this](const Status& status) { expect_invalid_argument(status); });
    if (has_other()) {
      expect_invalid_argument(
          device().copy_to_peer(other().properties().index, address, address, 16, stream));
    }
  }
  EXPECT_TRUE(require_ok(device().is_done(event))) << "it was not recorded";
}

TEST_P(StreamsContract, RejectsAnotherDevicesStream) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  if (!properties().checks_stream_ids) GTEST_SKIP() << "the device does not check stream ids";
  const DeviceAddress address = allocate(4096);
  const EventId event = create_event();
  uint8_t* host = allocate_pinned_bytes(16);
  const StreamId theirs = create_stream(other());
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_stream_is_refused(device(), theirs, address, event, host,
                             [this](const Status& status) { expect_invalid_argument(status); });
  }
  EXPECT_TRUE(ok(other().synchronize_stream(theirs))) << "its own device can still use it";
}

}  // namespace ashlar::contract
