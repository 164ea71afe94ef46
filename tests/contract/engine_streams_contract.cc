// SPDX-License-Identifier: Apache-2.0
//
// Blocks belong to streams: reuse in their own is in order, others are waited for.
#include <atomic>
#include <thread>

#include "engine_contract.h"

namespace ashlar::contract {

TEST_P(EngineStreamsContract, ReuseOnTheSameStreamIsInOrder) {
  const StreamId stream = new_stream();
  Block* kept = allocate(kMiB, stream);
  Block* first = allocate(kMiB, stream);
  hold(stream);
  fill(first, 0x11);
  must(device().copy(kept->address, first->address, kMiB, stream));
  free(first);  // at once: what is queued comes first
  EXPECT_EQ(active_count(), 1);
  Block* second = allocate(kMiB, stream);
  fill(second, 0x22);
  let_go_on(stream);
  EXPECT_TRUE(holds(kept, 0x11));
  EXPECT_TRUE(holds(second, 0x22));
}

// Another stream may get it, if its work is made to come later.
TEST_P(EngineStreamsContract, MemoryOfABusyStreamIsNotDisturbedByAnother) {
  const StreamId busy = new_stream();
  Block* block = allocate(4 * kMiB, busy);
  Block* kept = allocate(4 * kMiB, busy);
  hold(busy);
  fill(block, 0x33);
  must(device().copy(kept->address, block->address, 4 * kMiB, busy));
  free(block);
  const StreamId other_stream = new_stream();
  std::vector<Block*> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(allocate(4 * kMiB, other_stream));
    fill(others.back(), 0xff);
  }
  let_go_on(busy);
  must(device().synchronize_stream(other_stream));
  EXPECT_TRUE(holds(kept, 0x33));
  for (Block* other : others) EXPECT_TRUE(holds(other, 0xff));
}

TEST_P(EngineStreamsContract, AStreamThatWasRecordedIsWaitedForBeforeReuse) {
  const StreamId own = new_stream();
  const StreamId reader = new_stream();
  Block* kept = allocate(2 * kMiB, reader);
  Block* block = allocate(2 * kMiB, own);
  fill(block, 0x44);
  order(own, reader);
  hold(reader);
  must(device().copy(kept->address, block->address, 2 * kMiB, reader));
  use_on(block, reader);
  const AddressRange range = free_in_use(block);
  for (int i = 0; i < 8; ++i) fill(allocate(2 * kMiB, own), 0xff);
  must(device().synchronize_stream(own));
  EXPECT_EQ(stats().allocation.all.current, 9);
  EXPECT_EQ(active_count(), 10) << "freed, and in use by the reader";
  let_go_on(reader);
  is_over(range);
  EXPECT_TRUE(holds(kept, 0x44));
}

TEST_P(EngineStreamsContract, PendingFreesAreCollectedOnceTheirStreamsHavePassed) {
  const StreamId first = busy_stream();
  const StreamId second = busy_stream();
  Block* block = allocate(kMiB);
  use_on(block, first);
  use_on(block, second);
  const AddressRange range = free_in_use(block);
  allocate(kMiB);
  EXPECT_EQ(active_count(), 2);
  let_go_on(first);
  allocate(kMiB);
  EXPECT_EQ(active_count(), 3) << "the second stream is not done";
  let_go_on(second);
  is_over(range);
  allocate(kMiB);
  EXPECT_EQ(active_count(), 3);
  EXPECT_EQ(stats().requested_bytes.all.current, static_cast<int64_t>(3 * kMiB));
}

TEST_P(EngineStreamsContract, RecordingItsOwnStreamDelaysNothing) {
  const StreamId stream = busy_stream();
  Block* block = allocate(kMiB, stream);
  use_on(block, stream);
  free(block);
  EXPECT_EQ(active_count(), 0);
}

TEST_P(EngineStreamsContract, AUseEndsWithItsFree) {
  const StreamId used = new_stream();
  Block* block = allocate(kMiB);
  use_on(block, used);
  free(block);
  must(engine().trim());
  hold(used);
  must(device().call_host(used, [] {}));
  Block* again = allocate(kMiB);
  free(again);
  EXPECT_EQ(active_count(), 0) << "the stream used the block before, not this one";
}

TEST_P(EngineStreamsContract, RecordingAStreamTwiceIsAsGoodAsOnce) {
  const StreamId used = busy_stream();
  Block* block = allocate(kMiB);
  for (int i = 0; i < 3; ++i) use_on(block, used);
  const AddressRange range = free_in_use(block);
  allocate(kMiB);
  EXPECT_EQ(active_count(), 2);
  let_go_on(used);
  is_over(range);
  free(allocate(512));
  EXPECT_EQ(active_count(), 1);
}

TEST_P(EngineStreamsContract, AStreamOfAnotherDeviceIsWaitedForThere) {
  if (!machine_->has_two_devices()) GTEST_SKIP() << "there is one device";
  const StreamId away = must(other().create_stream());
  hold(away, kOther);
  must(other().call_host(away, [] {}));
  Block* block = allocate(kMiB);
  must(engine().record_stream(block, {&other(), away}));
  const AddressRange range = free_in_use(block);
  allocate(kMiB);
  EXPECT_EQ(active_count(), 2);
  let_go_on(away, kOther);
  is_over(range);
  free(allocate(512));
  EXPECT_EQ(active_count(), 1);
}

TEST_P(EngineStreamsContract, ASlowStreamHoldsUpOnlyItsOwnBlocks) {
  const StreamId slow = busy_stream();
  const StreamId quick = busy_stream();
  Block* first = allocate(kMiB);
  Block* second = allocate(kMiB);
  use_on(first, slow);
  use_on(second, quick);
  free_in_use(first);
  const AddressRange range = free_in_use(second);
  let_go_on(quick);
  is_over(range);
  allocate(512);
  EXPECT_EQ(active_count(), 2);
}

TEST_P(EngineStreamsContract, AStreamMayBeDestroyedBeforeTheBlocksThatItUsed) {
  const StreamId gone = new_stream();
  Block* block = allocate(3 * kMiB);
  use_on(block, gone);
  must(device().destroy_stream(gone));
  free_in_use(block);  // when its work was over nobody can tell, before the device is waited for
  allocate(3 * kMiB);
  EXPECT_EQ(active_count(), 2);
  must(engine().trim());
  EXPECT_EQ(active_count(), 1);
}

TEST_P(EngineStreamsContract, TheMemoryOfADestroyedStreamIsGivenBack) {
  const StreamId gone = new_stream();
  free(allocate(512, gone));
  free(allocate(30 * kMiB, gone));
  must(device().destroy_stream(gone));
  must(engine().trim());
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_P(EngineStreamsContract, MemoryIsNotGivenBackWhileItsOwnStreamIsAtWork) {
  const StreamId stream = new_stream();
  Block* block = allocate(30 * kMiB, stream);
  hold(stream);
  fill(block, 1);
  free(block);
  std::jthread trimming([&] { EXPECT_TRUE(ok(engine().trim())); });
  EXPECT_TRUE(stays([&] { return used_bytes() > 0; }));
  let_go_on(stream);  // fails if the work found nothing to work on
  trimming.join();
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_P(EngineStreamsContract, BlocksCanBeFreedByAnotherThread) {
  Block* plain = allocate(kMiB);
  Block* used = allocate(kMiB);
  use_on(used, new_stream());
  std::thread([&] {
    free(plain);
    free(used);
  }).join();
  expect_empties();
}

TEST_P(EngineStreamsContract, TrimWaitsForPendingFrees) {
  const StreamId busy = busy_stream();
  Block* block = allocate(4 * kMiB);
  use_on(block, busy);
  free(block);
  std::atomic<bool> done = false;
  std::jthread trimming([&] {
    EXPECT_TRUE(ok(engine().trim()));
    done = true;
  });
  EXPECT_TRUE(stays([&] { return !done; }));
  let_go_on(busy);
  trimming.join();
  EXPECT_EQ(active_count(), 0);
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_P(EngineStreamsContract, QuietFreesAreFrees) {
  const StreamId used = busy_stream();
  engine().free_quietly(must(engine().allocate({kMiB, kDefaultStream})));
  Block* block = must(engine().allocate({kMiB, kDefaultStream}));
  use_on(block, used);
  engine().free_quietly(block);
  EXPECT_EQ(stats().allocation.all.current, 0);
  EXPECT_EQ(active_count(), 1);
  let_go_on(used);
  expect_empties();
}

}  // namespace ashlar::contract
