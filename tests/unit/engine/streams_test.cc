// SPDX-License-Identifier: Apache-2.0
//
// Tests of how memory is reused by other streams.
#include "classic_fixture.h"

namespace ashlar::classic {
namespace {

class EngineStreamsTest : public ClassicFixture {};

TEST_F(EngineStreamsTest, BlockServesOnlyItsStream) {
  start();
  const StreamId other = new_stream();
  const DeviceAddress address = cache(3 * kMiB);
  EXPECT_NE(allocate(3 * kMiB, other)->address, address);
  EXPECT_EQ(allocate(3 * kMiB)->address, address);
}

TEST_F(EngineStreamsTest, OtherStreamDelaysReuse) {
  start();
  const StreamId other = busy_stream();
  Block* block = allocate(20 * kMiB);
  const DeviceAddress address = block->address;
  use_on(block, other);
  free(block);
  EXPECT_EQ(stats().allocation.all.current, 0);
  EXPECT_EQ(stats().active.all.current, 1) << "pending";
  Block* meanwhile = allocate(20 * kMiB);
  EXPECT_NE(meanwhile->address, address);
  finish(other);
  EXPECT_EQ(allocate(20 * kMiB)->address, address);
}

TEST_F(EngineStreamsTest, OwnStreamNeedsNoWait) {
  start();
  const StreamId own = busy_stream();
  Block* block = allocate(20 * kMiB, own);
  const DeviceAddress address = block->address;
  use_on(block, own);
  free(block);
  EXPECT_EQ(allocate(20 * kMiB, own)->address, address);
  EXPECT_EQ(calls(DeviceCall::kRecordEvent), 0U);
  finish(own);
}

TEST_F(EngineStreamsTest, WaitsForEveryUsingStream) {
  start();
  const StreamId first = busy_stream();
  const StreamId second = busy_stream();
  Block* block = allocate(20 * kMiB);
  const DeviceAddress address = block->address;
  use_on(block, first);
  use_on(block, second);
  use_on(block, first);
  free(block);
  EXPECT_EQ(calls(DeviceCall::kRecordEvent), 2U) << "one event per stream";
  finish(second);
  EXPECT_NE(allocate(20 * kMiB)->address, address);
  finish(first);
  EXPECT_EQ(allocate(20 * kMiB)->address, address);
}

TEST_F(EngineStreamsTest, SlowStreamDelaysOnlyItsOwnBlocks) {
  start();
  const StreamId slow = busy_stream();
  const StreamId fast = busy_stream();
  Block* waits_long = allocate(20 * kMiB);
  Block* waits_short = allocate(20 * kMiB);
  const DeviceAddress freed_address = waits_short->address;
  use_on(waits_long, slow);
  use_on(waits_short, fast);
  free(waits_long);
  free(waits_short);
  finish(fast);
  EXPECT_EQ(allocate(20 * kMiB)->address, freed_address);
  finish(slow);
}

TEST_F(EngineStreamsTest, FreeClearsUses) {
  start();
  const StreamId other = busy_stream();
  Block* block = allocate(20 * kMiB);
  use_on(block, other);
  free(block);
  finish(other);
  const DeviceAddress address = cache(20 * kMiB);
  EXPECT_EQ(allocate(20 * kMiB)->address, address);
  EXPECT_EQ(calls(DeviceCall::kRecordEvent), 1U);
}

TEST_F(EngineStreamsTest, ReusesEvents) {
  start();
  const StreamId other = new_stream();
  for (int i = 0; i < 5; ++i) {
    Block* block = allocate(512);
    use_on(block, other);
    free(block);
    finish(other);
  }
  EXPECT_EQ(calls(DeviceCall::kRecordEvent), 5U);
  EXPECT_EQ(calls(DeviceCall::kCreateEvent), 1U);
}

TEST_F(EngineStreamsTest, WaitsOnTheStreamsOwnDevice) {
  start();
  Device& second = machine_->device(DeviceIndex(1));
  const StreamId remote = *second.create_stream();
  keep_busy(second, remote);
  Block* block = allocate(20 * kMiB);
  const DeviceAddress address = block->address;
  must(engine_->record_stream(block, {&second, remote}));
  free(block);
  EXPECT_NE(allocate(20 * kMiB)->address, address);
  finish(second, remote);
  EXPECT_EQ(allocate(20 * kMiB)->address, address);
}

TEST_F(EngineStreamsTest, DistinguishesDefaultStreamsOfDevices) {
  start();
  Device& second = machine_->device(DeviceIndex(1));
  keep_busy(second, kDefaultStream);
  Block* block = allocate(20 * kMiB);
  const DeviceAddress address = block->address;
  must(engine_->record_stream(block, {&second, kDefaultStream}));
  free(block);
  EXPECT_NE(allocate(20 * kMiB)->address, address);
  finish(second, kDefaultStream);
}

TEST_F(EngineStreamsTest, TrimWaitsForPendingFrees) {
  start();
  const StreamId other = new_stream();
  Block* block = allocate(20 * kMiB);
  use_on(block, other);
  free(block);
  trim();
  EXPECT_EQ(stats().sync_all_streams, 1);
  EXPECT_EQ(stats().active.all.current, 0);
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_F(EngineStreamsTest, RetriesFailedEventRecord) {
  start();
  const StreamId other = new_stream();
  Block* block = allocate(20 * kMiB);
  const DeviceAddress address = block->address;
  use_on(block, other);
  machine_->inject({.call = DeviceCall::kRecordEvent});
  EXPECT_EQ(engine_->free(block).kind(), StatusKind::kDeviceFault);
  EXPECT_EQ(stats().active.all.current, 1);
  Block* meanwhile = allocate(512);  // retries to record the event of the pending free
  must(device().synchronize_stream(other));
  EXPECT_EQ(allocate(20 * kMiB)->address, address);
  free(meanwhile);
}

TEST_F(EngineStreamsTest, NextAllocationReportsQuietFreeError) {
  start();
  Block* block = allocate(20 * kMiB);
  use_on(block, new_stream());
  machine_->inject({.call = DeviceCall::kRecordEvent});
  engine_->free_quietly(block);
  EXPECT_EQ(allocation_error(512).kind(), StatusKind::kDeviceFault);
  EXPECT_NE(allocate(512), nullptr) << "reported once";
}

}  // namespace
}  // namespace ashlar::classic
