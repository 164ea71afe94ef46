// SPDX-License-Identifier: Apache-2.0
//
// Tests of the classic engine's components, without an engine or a device.
#include <gtest/gtest.h>

#include "base/units.h"
#include "engine/classic/block_heap.h"
#include "engine/classic/heap_inspection.h"
#include "engine/classic/memory_limit.h"
#include "engine/classic/pool_table.h"
#include "engine/classic/reserve_policy.h"
#include "unit/engine/classic_fixture.h"

namespace ashlar::classic {
namespace {

constexpr StreamId kStream{7};
constexpr DeviceAddress kBase{uint64_t{1} << 40};

class ClassicComponentsTest : public ::testing::Test {
 protected:
  AllocParams params(size_t bytes) {
    AllocParams made;
    made.request = {bytes, kStream};
    made.block_bytes = sizes_.block_bytes(bytes);
    made.segment_bytes = 20 * kMiB;
    made.pool = &pools_.pool_for(made.block_bytes, kStream);
    return made;
  }
  // Allocates from the front of a new segment of 20 MiB.
  ClassicBlock* allocate_from_new_segment(size_t bytes) {
    const AllocParams request = params(bytes);
    const BlockStore::Reservation for_segment = heap_.reserve_segment(kStream);
    const BlockStore::Reservation for_split = heap_.reserve(1);
    ClassicBlock* segment = heap_.create(request, {kBase, request.segment_bytes});
    stats_.record_reserved(*segment, segment->bytes);
    return heap_.allocate(segment, request);
  }
  void expect_valid() const {
    const Status valid = validate_heap(heap_, pools_, stats_);
    EXPECT_TRUE(valid.ok()) << valid.message();
  }

  AllocatorOptions options_;
  SizePolicy sizes_{options_};
  History history_;
  Hooks hooks_{history_, DeviceIndex(0)};
  BlockTable addresses_;
  StatsRecorder stats_{sizes_, options_};
  Tracer tracer_{hooks_};
  ReturnQueue return_queue_;
  PoolTable pools_{stats_, return_queue_, {}};
  BlockHeap heap_{{sizes_, stats_, tracer_, addresses_}};
};

TEST_F(ClassicComponentsTest, HeapSplitsOnAllocateAndMergesOnFree) {
  ClassicBlock* first = allocate_from_new_segment(4 * kMiB);
  EXPECT_EQ(first->bytes, 4 * kMiB);
  ASSERT_NE(first->next, nullptr);
  EXPECT_EQ(first->next->bytes, 16 * kMiB);
  EXPECT_EQ(segment_range(*first).bytes, 20 * kMiB);
  expect_valid();

  heap_.free(first);
  EXPECT_EQ(first->bytes, 20 * kMiB);
  EXPECT_FALSE(first->is_split());
  EXPECT_EQ(pools_.large().blocks().size(), 1U);
  expect_valid();
}

TEST_F(ClassicComponentsTest, PendingBlockIsActiveButNotAllocated) {
  ClassicBlock* block = allocate_from_new_segment(4 * kMiB);
  heap_.request_free(block);
  EXPECT_EQ(stats_.stats().allocated_bytes.all.current, 0);
  EXPECT_EQ(stats_.stats().active_bytes.all.current, static_cast<int64_t>(4 * kMiB));
  EXPECT_TRUE(live_addresses(heap_, nullptr).empty());
  heap_.complete_free(block);
  EXPECT_EQ(stats_.stats().active_bytes.all.current, 0);
  expect_valid();
}

TEST_F(ClassicComponentsTest, ValidationFindsWrongCounters) {
  allocate_from_new_segment(4 * kMiB);
  stats_.stats().active_bytes.all.current += 1;
  EXPECT_FALSE(validate_heap(heap_, pools_, stats_).ok());
}

TEST_F(ClassicComponentsTest, LimitCountsReservedAndRequestedMemory) {
  MemoryLimit limit(stats_, kGiB, 0.5);
  EXPECT_EQ(limit.bytes(), 512 * kMiB);
  EXPECT_FALSE(limit.is_exceeded_by(512 * kMiB));
  allocate_from_new_segment(4 * kMiB);
  EXPECT_TRUE(limit.is_exceeded_by(512 * kMiB));
  EXPECT_FALSE(limit.is_exceeded_by(492 * kMiB));
  {
    const MemoryLimit::Request request(limit, kMiB);
    EXPECT_TRUE(limit.is_exceeded_by(492 * kMiB));
  }
  EXPECT_FALSE(limit.is_exceeded_by(492 * kMiB));
  limit.set_fraction(1);
  EXPECT_FALSE(limit.is_exceeded_by(2 * kGiB));
}

TEST_F(ClassicComponentsTest, PoolTableErasesOnlyUnusedFreeablePools) {
  ASSERT_TRUE(pools_.create(kUserPool, {}).ok());
  PrivatePool* pool = pools_.find(kUserPool);
  ASSERT_NE(pool, nullptr);
  pools_.erase_empty({});
  EXPECT_EQ(pools_.find(kUserPool), pool);

  ASSERT_TRUE(pools_.release(kUserPool).ok());
  pool->in_flight_count = 1;
  pools_.erase_empty({});
  EXPECT_EQ(pools_.find(kUserPool), pool);

  pool->in_flight_count = 0;
  pools_.erase_empty({});
  EXPECT_EQ(pools_.find(kUserPool), nullptr);
  EXPECT_FALSE(stats_.stats().pools.contains(kUserPool));
}

TEST_F(ClassicComponentsTest, PoolTableRoutesAcceptedStreams) {
  ASSERT_TRUE(
      pools_.begin_routing(kUserPool, [](StreamId stream) { return stream == kStream; }).ok());
  EXPECT_EQ(&pools_.pool_for(512, kStream), &pools_.find(kUserPool)->small);
  EXPECT_EQ(&pools_.pool_for(2 * kMiB, kStream), &pools_.find(kUserPool)->large);
  EXPECT_EQ(&pools_.pool_for(512, StreamId(8)), &pools_.small());
}

TEST_F(ClassicComponentsTest, ReservePolicyPrefersClassOverGlobalSetting) {
  AllocatorOptions options;
  options.expandable_reserve = ReserveSize{0.5, 0};
  options.expandable_reserve_by_class["comm"] = ReserveSize{0, 64 * kMiB};
  ReservePolicy policy(options, kGiB);
  EXPECT_EQ(policy.reserve_bytes(kStream, 2 * kMiB), 512 * kMiB);
  policy.set_stream_class(kStream, "comm");
  EXPECT_EQ(policy.reserve_bytes(kStream, 2 * kMiB), 64 * kMiB);
  policy.set_stream_class(kStream, "");
  EXPECT_EQ(policy.stream_class(kStream), "");
  EXPECT_EQ(policy.reserve_bytes(kStream, 2 * kMiB), 512 * kMiB);
}

}  // namespace
}  // namespace ashlar::classic
