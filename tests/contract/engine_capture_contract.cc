// SPDX-License-Identifier: Apache-2.0
//
// Tests captures: a pool keeps the memory of a graph, and engine calls do not invalidate a capture.
#include "engine_contract.h"

namespace ashlar::contract {

TEST_P(EngineCaptureContract, GraphUsesMemoryAllocatedDuringItsCapture) {
  const StreamId stream = create_stream();
  begin_capture(stream);
  Block* small = allocate(3000, stream);
  Block* large = allocate(30 * kMiB, stream);
  fill(small, 0x0a);
  fill(large, 0x0b);
  const GraphId graph = end_capture();
  EXPECT_EQ(pool_of(small), kPool);
  EXPECT_EQ(pool_of(large), kPool);
  launch(graph, stream);
  EXPECT_TRUE(contains(small, 0x0a));
  EXPECT_TRUE(contains(large, 0x0b));
}

TEST_P(EngineCaptureContract, EngineCallsDoNotInvalidateACapture) {
  const StreamId stream = create_stream();
  const StreamId bystander = create_stream();
  Block* used = allocate(5 * kMiB);
  record_stream(used, bystander);
  free(allocate(40 * kMiB, bystander));
  begin_capture(stream);
  free(used);
  free(allocate(5 * kMiB, stream));
  free(allocate(50 * kMiB, bystander));
  free(allocate(512));
  require_ok(engine().trim());
  EXPECT_EQ(allocation_error(kCapacityBytes, stream).kind(), StatusKind::kOutOfMemory);
  EXPECT_EQ(allocation_error(kCapacityBytes, bystander).kind(), StatusKind::kOutOfMemory);
  require_ok(engine().set_memory_fraction(0.9));
  (void)stats();
  EXPECT_TRUE(is_capturing(stream));
  end_capture();
}

TEST_P(EngineCaptureContract, KeepsGraphMemoryUntilThePoolIsReleased) {
  const StreamId stream = create_stream();
  Block* result = allocate(4 * kMiB, stream);
  begin_capture(stream);
  Block* scratch = allocate(4 * kMiB, stream);
  fill(scratch, 0x77);
  require_ok(device().copy(result->address, scratch->address, 4 * kMiB, stream));
  free(scratch);
  const GraphId graph = end_capture();
  // Later allocations must not reuse the graph's scratch memory.
  std::vector<Block*> others;
  for (int i = 0; i < 6; ++i) others.push_back(allocate(4 * kMiB, stream));
  for (Block* block : others) fill(block, 0x66);
  require_ok(device().synchronize_stream(stream));
  require_ok(engine().trim());
  launch(graph, stream);
  EXPECT_TRUE(contains(result, 0x77));
  for (Block* block : others) EXPECT_TRUE(contains(block, 0x66));

  require_ok(device().destroy_graph(graph));
  const size_t used = used_bytes();
  require_ok(engine().release_pool(kPool));
  require_ok(engine().trim());
  EXPECT_LT(used_bytes(), used);
  EXPECT_FALSE(pool_exists(kPool));
}

TEST_P(EngineCaptureContract, KeepsGraphMemoryWhenCachingIsOff) {
  const StreamId stream = create_stream();
  const StreamId side = create_stream();
  engine().set_caching(false);
  begin_capture(stream);
  Block* scratch = allocate(4 * kMiB, stream);
  Block* shared = allocate(4 * kMiB, stream);
  Block* result = allocate(4 * kMiB, stream);
  for (Block* block : {scratch, shared, result}) fill(block, 0x51);
  record_stream(shared, side);
  const DeviceAddress address = result->address;
  free(scratch);
  free(shared);
  const GraphId graph = end_capture();
  free(result);
  Block* other = allocate(4 * kMiB, stream);
  EXPECT_NE(other->address, address);
  fill(other, 0x52);
  require_ok(engine().trim());
  launch(graph, stream);
  EXPECT_TRUE(contains(other, 0x52));
}

TEST_P(EngineCaptureContract, DoesNotWaitForADestroyedStreamDuringACapture) {
  constexpr PoolId kReleased{0, 9};
  const StreamId destroyed = create_stream();
  const StreamId stream = create_stream();
  route_to(kReleased, destroyed);
  free(allocate(512, destroyed));
  free(allocate(40 * kMiB, destroyed));
  end_routing(kReleased);
  require_ok(engine().release_pool(kReleased));
  require_ok(device().destroy_stream(destroyed));
  begin_capture(stream);
  require_ok(engine().trim());
  require_ok(engine().trim(kReleased));
  EXPECT_TRUE(is_capturing(stream));
  end_capture();
  require_ok(engine().trim());
  EXPECT_FALSE(pool_exists(kReleased));
}

TEST_P(EngineCaptureContract, ReusesMemoryFreedDuringTheSameCapture) {
  const StreamId stream = create_stream();
  begin_capture(stream);
  free(allocate(4 * kMiB, stream));
  const int64_t reserved = stats().reserved_bytes.all.current;
  for (int i = 0; i < 20; ++i) free(allocate(4 * kMiB, stream));
  EXPECT_EQ(stats().reserved_bytes.all.current, reserved);
  end_capture();
}

TEST_P(EngineCaptureContract, LaterGraphSharesThePool) {
  const StreamId stream = create_stream();
  Block* result = allocate(kMiB, stream);
  std::vector<GraphId> graphs;
  for (uint8_t value : {uint8_t{1}, uint8_t{2}}) {
    begin_capture(stream);
    Block* scratch = allocate(kMiB, stream);
    fill(scratch, value);
    require_ok(device().copy(result->address, scratch->address, kMiB, stream));
    free(scratch);
    graphs.push_back(end_capture());
  }
  EXPECT_EQ(require_ok(engine().pool_use_count(kPool)), 2) << "one for each capture";
  for (uint8_t i : {uint8_t{0}, uint8_t{1}, uint8_t{0}}) {
    launch(graphs[i], stream);
    EXPECT_TRUE(contains(result, i + 1));
  }
}

TEST_P(EngineCaptureContract, DoesNotReuseABlockThatAConcurrentBranchUses) {
  const StreamId main = create_stream();
  const StreamId side = create_stream();
  Block* kept = allocate(2 * kMiB, side);
  begin_capture(main);
  Block* block = allocate(2 * kMiB, main);
  fill(block, 0x21);
  order_streams(main, side);
  require_ok(device().copy(kept->address, block->address, 2 * kMiB, side));
  record_stream(block, side);
  const AddressRange range = free_while_used(block);
  Block* next = allocate(2 * kMiB, main);  // its fill is concurrent with the copy
  fill(next, 0x22);
  order_streams(side, main);
  const GraphId graph = end_capture();
  mark_finished(range);
  launch(graph, main);
  EXPECT_TRUE(contains(kept, 0x21));
  EXPECT_TRUE(contains(next, 0x22));
  free(allocate(512));
  EXPECT_EQ(active_count(), 2) << "after the capture, its uses belong to the graph";
}

TEST_P(EngineCaptureContract, ReusesABlockWhenTheGraphOrdersItsUses) {
  AllocatorOptions options;
  options.capture_stream_reuse = true;
  restart_with(options);
  const StreamId main = create_stream();
  const StreamId side = create_stream();
  begin_capture(main);
  Block* block = allocate(2 * kMiB, main);
  fill(block, 1);
  order_streams(main, side);
  fill(block, 2, side);
  record_stream(block, side);
  const AddressRange range = free_while_used(block);
  allocate(2 * kMiB, main);
  order_streams(side, main);
  mark_finished(range);
  allocate(2 * kMiB, main);  // the engine may or may not reuse the block
  EXPECT_LE(active_count(), 3);
  end_capture();
  free(allocate(512));
  EXPECT_EQ(active_count(), 2);
}

TEST_P(EngineCaptureContract, WaitsForWorkQueuedBeforeTheCapture) {
  const StreamId captured = create_stream();
  const StreamId busy = busy_stream();
  Block* block = allocate(2 * kMiB, captured);
  record_stream(block, busy);
  begin_capture(captured);
  const AddressRange range = free_while_used(block);
  allocate(2 * kMiB, captured);
  end_capture();
  allocate(2 * kMiB, captured);
  EXPECT_EQ(active_count(), 3);
  resume_stream(busy);
  mark_finished(range);
  allocate(2 * kMiB, captured);
  EXPECT_EQ(active_count(), 3);
}

TEST_P(EngineCaptureContract, WaitsForEarlierWorkOfACapturedStream) {
  const StreamId used = busy_stream();
  Block* block = allocate(2 * kMiB);
  record_stream(block, used);
  begin_capture(used);
  record_stream(block, used);  // this time for captured work
  const AddressRange range = free_while_used(block);
  end_capture();
  allocate(2 * kMiB);
  EXPECT_EQ(active_count(), 2);
  resume_stream(used);
  mark_finished(range);
  allocate(2 * kMiB);
  EXPECT_EQ(active_count(), 2);
}

TEST_P(EngineCaptureContract, EngineWorksAfterAnInvalidatedCapture) {
  const StreamId stream = create_stream();
  begin_capture(stream);
  Block* block = allocate(2 * kMiB, stream);
  record_stream(block, create_stream());
  free(block);
  EXPECT_FALSE(device().synchronize_stream(stream).ok());  // invalidates the capture
  free(allocate(2 * kMiB, stream));
  EXPECT_FALSE(device().end_capture(stream).ok());
  require_ok(engine().capture_ended());
  end_routing(kPool);
  fill(allocate(2 * kMiB, stream), 1);
  require_ok(engine().release_pool(kPool));
  expect_trims_to_zero();
}

TEST_P(EngineCaptureContract, RejectsUnbalancedEndOfRouting) {
  EXPECT_EQ(engine().capture_ended().kind(), StatusKind::kInvalidArgument);
  engine().capture_began();
  EXPECT_TRUE(ok(engine().capture_ended()));
  EXPECT_EQ(engine().capture_ended().kind(), StatusKind::kInvalidArgument);
}

}  // namespace ashlar::contract
