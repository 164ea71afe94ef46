// SPDX-License-Identifier: Apache-2.0
//
// Tests blocks and streams: reuse on the same stream, and waiting for other streams.
#include <atomic>
#include <thread>

#include "engine_contract.h"

namespace ashlar::contract {

TEST_P(EngineStreamsContract, ReusesMemoryInOrderOnTheSameStream) {
  const StreamId stream = create_stream();
  Block* kept = allocate(kMiB, stream);
  Block* first = allocate(kMiB, stream);
  pause_stream(stream);
  fill(first, 0x11);
  require_ok(device().copy(kept->address, first->address, kMiB, stream));
  free(first);  // reusable immediately: later work runs after the queued work
  EXPECT_EQ(active_count(), 1);
  Block* second = allocate(kMiB, stream);
  fill(second, 0x22);
  resume_stream(stream);
  EXPECT_TRUE(contains(kept, 0x11));
  EXPECT_TRUE(contains(second, 0x22));
}

// Another stream may get the memory only if its work is ordered after the busy stream's work.
TEST_P(EngineStreamsContract, OtherStreamsDoNotOverwriteMemoryOfBusyStream) {
  const StreamId busy = create_stream();
  Block* block = allocate(4 * kMiB, busy);
  Block* kept = allocate(4 * kMiB, busy);
  pause_stream(busy);
  fill(block, 0x33);
  require_ok(device().copy(kept->address, block->address, 4 * kMiB, busy));
  free(block);
  const StreamId other_stream = create_stream();
  std::vector<Block*> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(allocate(4 * kMiB, other_stream));
    fill(others.back(), 0xff);
  }
  resume_stream(busy);
  require_ok(device().synchronize_stream(other_stream));
  EXPECT_TRUE(contains(kept, 0x33));
  for (Block* other : others) EXPECT_TRUE(contains(other, 0xff));
}

TEST_P(EngineStreamsContract, WaitsForRecordedStreamsBeforeReuse) {
  const StreamId own = create_stream();
  const StreamId reader = create_stream();
  Block* kept = allocate(2 * kMiB, reader);
  Block* block = allocate(2 * kMiB, own);
  fill(block, 0x44);
  order_streams(own, reader);
  pause_stream(reader);
  require_ok(device().copy(kept->address, block->address, 2 * kMiB, reader));
  record_stream(block, reader);
  const AddressRange range = free_while_used(block);
  for (int i = 0; i < 8; ++i) fill(allocate(2 * kMiB, own), 0xff);
  require_ok(device().synchronize_stream(own));
  EXPECT_EQ(stats().allocation.all.current, 9);
  EXPECT_EQ(active_count(), 10) << "freed, and in use by the reader";
  resume_stream(reader);
  mark_finished(range);
  EXPECT_TRUE(contains(kept, 0x44));
}

TEST_P(EngineStreamsContract, CollectsPendingFreesWhenTheirStreamsFinish) {
  const StreamId first = busy_stream();
  const StreamId second = busy_stream();
  Block* block = allocate(kMiB);
  record_stream(block, first);
  record_stream(block, second);
  const AddressRange range = free_while_used(block);
  allocate(kMiB);
  EXPECT_EQ(active_count(), 2);
  resume_stream(first);
  allocate(kMiB);
  EXPECT_EQ(active_count(), 3) << "the second stream is not done";
  resume_stream(second);
  mark_finished(range);
  allocate(kMiB);
  EXPECT_EQ(active_count(), 3);
  EXPECT_EQ(stats().requested_bytes.all.current, static_cast<int64_t>(3 * kMiB));
}

TEST_P(EngineStreamsContract, RecordingTheOwnStreamHasNoEffect) {
  const StreamId stream = busy_stream();
  Block* block = allocate(kMiB, stream);
  record_stream(block, stream);
  free(block);
  EXPECT_EQ(active_count(), 0);
}

TEST_P(EngineStreamsContract, FreeEndsRecordedUses) {
  const StreamId used = create_stream();
  Block* block = allocate(kMiB);
  record_stream(block, used);
  free(block);
  require_ok(engine().trim());
  pause_stream(used);
  require_ok(device().call_host(used, [] {}));
  Block* again = allocate(kMiB);
  free(again);
  EXPECT_EQ(active_count(), 0) << "the stream used the block before, not this one";
}

TEST_P(EngineStreamsContract, RecordingAStreamTwiceHasNoFurtherEffect) {
  const StreamId used = busy_stream();
  Block* block = allocate(kMiB);
  for (int i = 0; i < 3; ++i) record_stream(block, used);
  const AddressRange range = free_while_used(block);
  allocate(kMiB);
  EXPECT_EQ(active_count(), 2);
  resume_stream(used);
  mark_finished(range);
  free(allocate(512));
  EXPECT_EQ(active_count(), 1);
}

TEST_P(EngineStreamsContract, WaitsForARecordedStreamOfAnotherDevice) {
  if (!machine_->has_two_devices()) GTEST_SKIP() << "only one device";
  const StreamId peer_stream = require_ok(other().create_stream());
  pause_stream(peer_stream, kOther);
  require_ok(other().call_host(peer_stream, [] {}));
  Block* block = allocate(kMiB);
  require_ok(engine().record_stream(block, {&other(), peer_stream}));
  const AddressRange range = free_while_used(block);
  allocate(kMiB);
  EXPECT_EQ(active_count(), 2);
  resume_stream(peer_stream, kOther);
  mark_finished(range);
  free(allocate(512));
  EXPECT_EQ(active_count(), 1);
}

TEST_P(EngineStreamsContract, SlowStreamDelaysOnlyItsOwnBlocks) {
  const StreamId slow = busy_stream();
  const StreamId quick = busy_stream();
  Block* first = allocate(kMiB);
  Block* second = allocate(kMiB);
  record_stream(first, slow);
  record_stream(second, quick);
  free_while_used(first);
  const AddressRange range = free_while_used(second);
  resume_stream(quick);
  mark_finished(range);
  allocate(512);
  EXPECT_EQ(active_count(), 2);
}

TEST_P(EngineStreamsContract, StreamMayBeDestroyedBeforeItsBlocks) {
  const StreamId gone = create_stream();
  Block* block = allocate(3 * kMiB);
  record_stream(block, gone);
  require_ok(device().destroy_stream(gone));
  free_while_used(block);  // only a device synchronization shows that its work has finished
  allocate(3 * kMiB);
  EXPECT_EQ(active_count(), 2);
  require_ok(engine().trim());
  EXPECT_EQ(active_count(), 1);
}

TEST_P(EngineStreamsContract, ReleasesMemoryOfADestroyedStream) {
  const StreamId gone = create_stream();
  free(allocate(512, gone));
  free(allocate(30 * kMiB, gone));
  require_ok(device().destroy_stream(gone));
  require_ok(engine().trim());
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_P(EngineStreamsContract, KeepsMemoryWhileItsStreamIsBusy) {
  const StreamId stream = create_stream();
  Block* block = allocate(30 * kMiB, stream);
  pause_stream(stream);
  fill(block, 1);
  free(block);
  std::jthread trimming([&] { EXPECT_TRUE(ok(engine().trim())); });
  EXPECT_TRUE(consistently([&] { return used_bytes() > 0; }));
  resume_stream(stream);  // fails if the memory was unmapped before the work has run
  trimming.join();
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_P(EngineStreamsContract, FreesBlocksFromAnotherThread) {
  Block* plain = allocate(kMiB);
  Block* used = allocate(kMiB);
  record_stream(used, create_stream());
  std::thread([&] {
    free(plain);
    free(used);
  }).join();
  expect_trims_to_zero();
}

TEST_P(EngineStreamsContract, TrimWaitsForPendingFrees) {
  const StreamId busy = busy_stream();
  Block* block = allocate(4 * kMiB);
  record_stream(block, busy);
  free(block);
  std::atomic<bool> done = false;
  std::jthread trimming([&] {
    EXPECT_TRUE(ok(engine().trim()));
    done = true;
  });
  EXPECT_TRUE(consistently([&] { return !done; }));
  resume_stream(busy);
  trimming.join();
  EXPECT_EQ(active_count(), 0);
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_P(EngineStreamsContract, QuietFreeBehavesLikeFree) {
  const StreamId used = busy_stream();
  engine().free_quietly(require_ok(engine().allocate({kMiB, kDefaultStream})));
  Block* block = require_ok(engine().allocate({kMiB, kDefaultStream}));
  record_stream(block, used);
  engine().free_quietly(block);
  EXPECT_EQ(stats().allocation.all.current, 0);
  EXPECT_EQ(active_count(), 1);
  resume_stream(used);
  expect_trims_to_zero();
}

}  // namespace ashlar::contract
