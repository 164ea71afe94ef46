// SPDX-License-Identifier: Apache-2.0
//
// Tests of pools: separation, routing, retain and release.
#include "host/pinned_pools.h"

#include <thread>

#include "pinned_fixture.h"

namespace ashlar {
namespace {

constexpr PoolId kPool{0, 7};
constexpr PoolId kOtherPool{3, 0};
constexpr StreamId kRoutedStream{41};

class PinnedPoolsTest : public PinnedTest {
 protected:
  void TearDown() override {
    EXPECT_TRUE(pinned().validate().ok()) << pinned().validate().to_string();
  }
  void begin(PoolId pool, StreamId routed = kRoutedStream) {
    const auto filter = [routed](StreamId stream) { return stream == routed; };
    const Status begun = pinned().begin_routing(pool, filter);
    ASSERT_TRUE(begun.ok()) << begun.to_string();
  }
  void end(PoolId pool) { ASSERT_TRUE(pinned().end_routing(pool).ok()); }
  void release(PoolId pool) { ASSERT_TRUE(pinned().release_pool(pool).ok()); }
  PinnedBlock* allocate_on(StreamId stream, size_t bytes = kPinnedBytes) {
    const Result<PinnedBlock*> block = pinned().allocate(bytes, stream);
    EXPECT_TRUE(block.ok()) << block.status().to_string();
    return block.ok() ? *block : nullptr;
  }
  int64_t held_count() { return pinned().stats().allocations.current; }
};

TEST_F(PinnedPoolsTest, RoutedBlocksStayInTheirPool) {
  begin(kPool);
  PinnedBlock* block = allocate_on(kRoutedStream);
  free(block);
  EXPECT_NE(allocate_on(kDefaultStream), block) << "the pool keeps it separate";
  EXPECT_EQ(allocate_on(kRoutedStream), block);
  free(block);
  end(kPool);
  EXPECT_NE(allocate_on(kRoutedStream), block) << "the route has ended";
  begin(kPool);
  EXPECT_EQ(allocate_on(kRoutedStream), block);
}

TEST_F(PinnedPoolsTest, PendingBlockReturnsToItsPool) {
  begin(kPool);
  const StreamId stream = busy_stream();
  PinnedBlock* block = allocate_on(kRoutedStream);
  free_used_on(block, stream);
  finish(stream);
  EXPECT_NE(allocate_on(kDefaultStream), block);
  EXPECT_EQ(allocate_on(kRoutedStream), block);
}

TEST_F(PinnedPoolsTest, LatestRouteDeterminesThePool) {
  begin(kPool);
  PinnedBlock* first = allocate_on(kRoutedStream);
  free(first);
  begin(kOtherPool);
  PinnedBlock* second = allocate_on(kRoutedStream);
  EXPECT_NE(second, first);
  free(second);
  end(kPool);
  begin(kPool);
  EXPECT_EQ(allocate_on(kRoutedStream), first);
  end(kPool);
  EXPECT_EQ(allocate_on(kRoutedStream), second);
}

TEST_F(PinnedPoolsTest, TrimSkipsRetainedAndRoutedPools) {
  begin(kPool);
  PinnedBlock* block = allocate_on(kRoutedStream);
  free(block);
  release(kPool);
  EXPECT_TRUE(pinned().trim().ok());
  EXPECT_EQ(held_count(), 1) << "routed to";
  end(kPool);
  EXPECT_TRUE(pinned().trim().ok());
  EXPECT_EQ(held_count(), 0);
  EXPECT_FALSE(pinned().pool_use_count(kPool).ok()) << "destroyed";

  begin(kPool);
  end(kPool);
  begin(kPool);
  end(kPool);
  EXPECT_EQ(*pinned().pool_use_count(kPool), 2);
  release(kPool);
  EXPECT_TRUE(pinned().trim().ok());
  EXPECT_EQ(*pinned().pool_use_count(kPool), 1) << "held";
}

TEST_F(PinnedPoolsTest, ReleasedPoolLivesUntilItsBlocksAreFreed) {
  begin(kPool);
  PinnedBlock* block = allocate_on(kRoutedStream);
  end(kPool);
  release(kPool);
  EXPECT_TRUE(pinned().trim().ok());
  EXPECT_EQ(*pinned().pool_use_count(kPool), 0);
  free(block);
  EXPECT_EQ(held_count(), 1) << "until the next trim";
  EXPECT_TRUE(pinned().trim().ok());
  EXPECT_EQ(held_count(), 0);
  EXPECT_FALSE(pinned().pool_use_count(kPool).ok());
}

TEST_F(PinnedPoolsTest, PoolOutlivesAllocationInProgress) {
  begin(kPool);
  machine_->inject({.call = DeviceCall::kAllocateHost, .action = sim::FaultAction::kHang});
  PinnedBlock* block = nullptr;
  std::thread allocating([&] { block = allocate_on(kRoutedStream); });
  while (machine_->hung_call_count() == 0) std::this_thread::yield();
  end(kPool);
  release(kPool);
  EXPECT_TRUE(pinned().trim().ok());
  EXPECT_TRUE(pinned().pool_use_count(kPool).ok());
  machine_->release_hung_calls();
  allocating.join();
  free(block);
  EXPECT_TRUE(pinned().trim().ok());
  EXPECT_EQ(held_count(), 0);
}

TEST_F(PinnedPoolsTest, FullHostReclaimsReleasedPools) {
  begin(kPool);
  free(allocate_on(kRoutedStream));
  end(kPool);
  release(kPool);
  fail_next(DeviceCall::kAllocateHost, Status::out_of_memory("injected: the host is full"));
  allocate_on(kDefaultStream);
  EXPECT_EQ(held_count(), 1);
  EXPECT_EQ(call_count(DeviceCall::kFreeHost), 1U);
}

TEST_F(PinnedPoolsTest, ReservePartsMoveToTheDefaultPool) {
  options_.pinned.reserve_segment_bytes = kMiB;
  begin(kPool);
  PinnedBlock* block = allocate_on(kRoutedStream);
  free(block);
  EXPECT_NE(allocate_on(kDefaultStream), block);
  end(kPool);
  release(kPool);
  EXPECT_TRUE(pinned().trim().ok());
  EXPECT_FALSE(pinned().pool_use_count(kPool).ok());
  EXPECT_EQ(allocate_on(kDefaultStream), block);
}

TEST_F(PinnedPoolsTest, RejectsMisuseWithoutChange) {
  const auto is_misuse = [](const Status& status) {
    return status.is(StatusKind::kInvalidArgument);
  };
  const RouteFilter everything = [](StreamId) { return true; };
  EXPECT_TRUE(is_misuse(pinned().begin_routing({}, everything))) << "the default pool";
  EXPECT_TRUE(is_misuse(pinned().begin_routing(kPool, nullptr)));
  EXPECT_TRUE(is_misuse(pinned().end_routing(kPool)));
  EXPECT_TRUE(is_misuse(pinned().release_pool(kPool)));
  EXPECT_TRUE(is_misuse(pinned().pool_use_count(kPool).status()));
  begin(kPool);
  EXPECT_TRUE(is_misuse(pinned().begin_routing(kPool, everything))) << "twice";
  EXPECT_EQ(*pinned().pool_use_count(kPool), 1);
  PinnedBlock* block = allocate_on(kRoutedStream);
  end(kPool);
  EXPECT_TRUE(is_misuse(pinned().end_routing(kPool))) << "twice";
  release(kPool);
  EXPECT_TRUE(is_misuse(pinned().release_pool(kPool))) << "more often than retained";
  EXPECT_TRUE(is_misuse(pinned().begin_routing(kPool, everything)))
      << "released, not destroyed yet";
  EXPECT_EQ(*pinned().pool_use_count(kPool), 0);
  free(block);
}

}  // namespace
}  // namespace ashlar
