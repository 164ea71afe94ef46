// SPDX-License-Identifier: Apache-2.0
//
// Captures: their allocations come from a pool that keeps what the graph's addresses mean, and no
// call of the engine disturbs them.
#include "engine_contract.h"

namespace ashlar::contract {

TEST_P(EngineCaptureContract, WhatIsAllocatedDuringACaptureIsThereWhenTheGraphRuns) {
  const StreamId stream = new_stream();
  begin_capture(stream);
  Block* small = allocate(3000, stream);
  Block* large = allocate(30 * kMiB, stream);
  fill(small, 0x0a);
  fill(large, 0x0b);
  const GraphId graph = end_capture();
  EXPECT_EQ(pool_of(small), kPool);
  EXPECT_EQ(pool_of(large), kPool);
  launch(graph, stream);
  EXPECT_TRUE(holds(small, 0x0a));
  EXPECT_TRUE(holds(large, 0x0b));
}

TEST_P(EngineCaptureContract, NoCallOfTheEngineDisturbsACapture) {
  const StreamId stream = new_stream();
  const StreamId bystander = new_stream();
  Block* used = allocate(5 * kMiB);
  use_on(used, bystander);
  free(allocate(40 * kMiB, bystander));
  begin_capture(stream);
  free(used);
  free(allocate(5 * kMiB, stream));
  free(allocate(50 * kMiB, bystander));
  free(allocate(512));
  must(engine().trim());
  EXPECT_EQ(refused(kCapacityBytes, stream).kind(), StatusKind::kOutOfMemory);
  EXPECT_EQ(refused(kCapacityBytes, bystander).kind(), StatusKind::kOutOfMemory);
  must(engine().set_memory_fraction(0.9));
  (void)stats();
  EXPECT_TRUE(is_capturing(stream));
  end_capture();
}

TEST_P(EngineCaptureContract, AnAddressInAGraphKeepsItsMemoryUntilThePoolIsLetGo) {
  const StreamId stream = new_stream();
  Block* result = allocate(4 * kMiB, stream);
  begin_capture(stream);
  Block* scratch = allocate(4 * kMiB, stream);
  fill(scratch, 0x77);
  must(device().copy(result->address, scratch->address, 4 * kMiB, stream));
  free(scratch);
  const GraphId graph = end_capture();
  // Whatever others allocate now, the graph's scratch memory is not among it, nor gone.
  std::vector<Block*> others;
  for (int i = 0; i < 6; ++i) others.push_back(allocate(4 * kMiB, stream));
  for (Block* block : others) fill(block, 0x66);
  must(device().synchronize_stream(stream));
  must(engine().trim());
  launch(graph, stream);
  EXPECT_TRUE(holds(result, 0x77));
  for (Block* block : others) EXPECT_TRUE(holds(block, 0x66));

  must(device().destroy_graph(graph));
  const size_t used = used_bytes();
  must(engine().release_pool(kPool));
  must(engine().trim());
  EXPECT_LT(used_bytes(), used);
  EXPECT_FALSE(exists(kPool));
}

TEST_P(EngineCaptureContract, WithoutCachingAnAddressInAGraphKeepsItsMemoryToo) {
  const StreamId stream = new_stream();
  const StreamId side = new_stream();
  engine().set_caching(false);
  begin_capture(stream);
  Block* scratch = allocate(4 * kMiB, stream);
  Block* shared = allocate(4 * kMiB, stream);
  Block* result = allocate(4 * kMiB, stream);
  for (Block* block : {scratch, shared, result}) fill(block, 0x51);
  use_on(shared, side);
  const DeviceAddress address = result->address;
  free(scratch);
  free(shared);
  const GraphId graph = end_capture();
  free(result);
  Block* other = allocate(4 * kMiB, stream);
  EXPECT_NE(other->address, address);
  fill(other, 0x52);
  must(engine().trim());
  launch(graph, stream);
  EXPECT_TRUE(holds(other, 0x52));
}

TEST_P(EngineCaptureContract, AStreamThatIsGoneIsNotWaitedForDuringACapture) {
  constexpr PoolId kLetGo{0, 9};
  const StreamId gone = new_stream();
  const StreamId stream = new_stream();
  route(kLetGo, gone);
  free(allocate(512, gone));
  free(allocate(40 * kMiB, gone));
  end_route(kLetGo);
  must(engine().release_pool(kLetGo));
  must(device().destroy_stream(gone));
  begin_capture(stream);
  must(engine().trim());
  must(engine().trim(kLetGo));
  EXPECT_TRUE(is_capturing(stream));
  end_capture();
  must(engine().trim());
  EXPECT_FALSE(exists(kLetGo));
}

TEST_P(EngineCaptureContract, MemoryFreedDuringACaptureServesTheCaptureAgain) {
  const StreamId stream = new_stream();
  begin_capture(stream);
  free(allocate(4 * kMiB, stream));
  const int64_t reserved = stats().reserved_bytes.all.current;
  for (int i = 0; i < 20; ++i) free(allocate(4 * kMiB, stream));
  EXPECT_EQ(stats().reserved_bytes.all.current, reserved);
  end_capture();
}

TEST_P(EngineCaptureContract, AGraphCapturedLaterMayShareThePool) {
  const StreamId stream = new_stream();
  Block* result = allocate(kMiB, stream);
  std::vector<GraphId> graphs;
  for (uint8_t value : {uint8_t{1}, uint8_t{2}}) {
    begin_capture(stream);
    Block* scratch = allocate(kMiB, stream);
    fill(scratch, value);
    must(device().copy(result->address, scratch->address, kMiB, stream));
    free(scratch);
    graphs.push_back(end_capture());
  }
  EXPECT_EQ(must(engine().pool_use_count(kPool)), 2) << "one for each capture";
  for (uint8_t i : {uint8_t{0}, uint8_t{1}, uint8_t{0}}) {
    launch(graphs[i], stream);
    EXPECT_TRUE(holds(result, i + 1));
  }
}

TEST_P(EngineCaptureContract, ABlockUsedByTwoCapturedStreamsIsNotReusedBesideTheOther) {
  const StreamId main = new_stream();
  const StreamId side = new_stream();
  Block* kept = allocate(2 * kMiB, side);
  begin_capture(main);
  Block* block = allocate(2 * kMiB, main);
  fill(block, 0x21);
  order(main, side);
  must(device().copy(kept->address, block->address, 2 * kMiB, side));
  use_on(block, side);
  const AddressRange range = free_in_use(block);
  Block* next = allocate(2 * kMiB, main);  // its work runs beside the copy
  fill(next, 0x22);
  order(side, main);
  const GraphId graph = end_capture();
  is_over(range);
  launch(graph, main);
  EXPECT_TRUE(holds(kept, 0x21));
  EXPECT_TRUE(holds(next, 0x22));
  free(allocate(512));
  EXPECT_EQ(active_count(), 2) << "the capture is over: its uses are the graph's business";
}

TEST_P(EngineCaptureContract, WithReuseABlockComesBackWhereTheGraphProvesThatItMay) {
  AllocatorOptions options;
  options.capture_stream_reuse = true;
  restart_with(options);
  const StreamId main = new_stream();
  const StreamId side = new_stream();
  begin_capture(main);
  Block* block = allocate(2 * kMiB, main);
  fill(block, 1);
  order(main, side);
  fill(block, 2, side);
  use_on(block, side);
  const AddressRange range = free_in_use(block);
  allocate(2 * kMiB, main);
  order(side, main);
  is_over(range);
  allocate(2 * kMiB, main);  // whether it is that one is the engine's choice; both is not
  EXPECT_LE(active_count(), 3);
  end_capture();
  free(allocate(512));
  EXPECT_EQ(active_count(), 2);
}

TEST_P(EngineCaptureContract, WorkFromBeforeTheCaptureIsStillWaitedForAfterIt) {
  const StreamId captured = new_stream();
  const StreamId busy = busy_stream();
  Block* block = allocate(2 * kMiB, captured);
  use_on(block, busy);
  begin_capture(captured);
  const AddressRange range = free_in_use(block);
  allocate(2 * kMiB, captured);
  end_capture();
  allocate(2 * kMiB, captured);
  EXPECT_EQ(active_count(), 3);
  let_go_on(busy);
  is_over(range);
  allocate(2 * kMiB, captured);
  EXPECT_EQ(active_count(), 3);
}

TEST_P(EngineCaptureContract, AStreamThatWorkedBeforeItsCaptureIsWaitedForToo) {
  const StreamId used = busy_stream();
  Block* block = allocate(2 * kMiB);
  use_on(block, used);
  begin_capture(used);
  use_on(block, used);  // again, by the capture
  const AddressRange range = free_in_use(block);
  end_capture();
  allocate(2 * kMiB);
  EXPECT_EQ(active_count(), 2);
  let_go_on(used);
  is_over(range);
  allocate(2 * kMiB);
  EXPECT_EQ(active_count(), 2);
}

TEST_P(EngineCaptureContract, ACaptureThatIsBrokenOffLeavesAWorkingEngine) {
  const StreamId stream = new_stream();
  begin_capture(stream);
  Block* block = allocate(2 * kMiB, stream);
  use_on(block, new_stream());
  free(block);
  EXPECT_FALSE(device().synchronize_stream(stream).ok());  // breaks it
  free(allocate(2 * kMiB, stream));
  EXPECT_FALSE(device().end_capture(stream).ok());
  must(engine().capture_ended());
  end_route(kPool);
  fill(allocate(2 * kMiB, stream), 1);
  must(engine().release_pool(kPool));
  expect_empties();
}

TEST_P(EngineCaptureContract, MoreEndsThanBeginningsAreRefused) {
  EXPECT_EQ(engine().capture_ended().kind(), StatusKind::kInvalidArgument);
  engine().capture_began();
  EXPECT_TRUE(ok(engine().capture_ended()));
  EXPECT_EQ(engine().capture_ended().kind(), StatusKind::kInvalidArgument);
}

}  // namespace ashlar::contract
