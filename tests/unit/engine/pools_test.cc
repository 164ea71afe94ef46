// SPDX-License-Identifier: Apache-2.0
//
// Tests of private pools: routing, use counts and segment sources.
#include <gmock/gmock.h>

#include <map>

#include "classic_fixture.h"

namespace ashlar::classic {
namespace {

using ::testing::ElementsAre;

constexpr PoolId kFirst{0, 1};
constexpr PoolId kSecond{0, 2};

// A segment source that returns made-up addresses and counts its segments.
class CountingSource final : public SegmentSource {
 public:
  Result<DeviceAddress> allocate(size_t bytes, StreamId) override {
    if (on_allocate) on_allocate();
    if (refusals > 0) {
      --refusals;
      return Status::out_of_memory("the source is empty");
    }
    const DeviceAddress address(next_);
    next_ += uint64_t{1} << 40;
    held[address] = bytes;
    return address;
  }
  void free(DeviceAddress address, size_t bytes) override {
    if (on_free) on_free();
    EXPECT_EQ(held.at(address), bytes);
    held.erase(address);
  }

  std::map<DeviceAddress, size_t> held;
  int refusals = 0;
  std::function<void()> on_allocate;
  std::function<void()> on_free;

 private:
  uint64_t next_ = uint64_t{1} << 52;
};

class PoolsTest : public ClassicFixture {
 protected:
  PoolId pool_of_last_alloc() const {
    for (auto entry = trace_.rbegin(); entry != trace_.rend(); ++entry) {
      if (entry->action == TraceAction::kAlloc) return entry->pool;
    }
    return {};
  }
  int use_count(PoolId pool) { return *engine_->pool_use_count(pool); }
  bool exists(PoolId pool) { return engine_->pool_use_count(pool).ok(); }
};

TEST_F(PoolsTest, RoutedAllocationsUseOnlyThePool) {
  start();
  cache(20 * kMiB);
  route(kFirst);
  Block* inside = allocate(20 * kMiB);
  EXPECT_EQ(pool_of_last_alloc(), kFirst);
  EXPECT_EQ(calls(DeviceCall::kAllocate), 2U);
  end_route(kFirst);
  const DeviceAddress address = inside->address;
  free(inside);
  EXPECT_NE(allocate(20 * kMiB)->address, address);
}

TEST_F(PoolsTest, RoutesOnlyAcceptedStreams) {
  start();
  const StreamId routed = new_stream();
  route(kFirst, routed);
  allocate(512, routed);
  EXPECT_EQ(pool_of_last_alloc(), kFirst);
  allocate(512);
  EXPECT_EQ(pool_of_last_alloc(), PoolId{});
}

TEST_F(PoolsTest, LatestRouteWins) {
  start();
  route(kFirst);
  route(kSecond);
  allocate(512);
  EXPECT_EQ(pool_of_last_alloc(), kSecond);
  end_route(kSecond);
  allocate(512);
  EXPECT_EQ(pool_of_last_alloc(), kFirst);
  end_route(kFirst);
  allocate(512);
  EXPECT_EQ(pool_of_last_alloc(), PoolId{});
}

TEST_F(PoolsTest, RejectsInvalidRouting) {
  start();
  const auto any = [](StreamId) { return true; };
  route(kFirst);
  EXPECT_EQ(engine_->begin_routing(kFirst, any).kind(), StatusKind::kInvalidArgument)
      << "routed already";
  EXPECT_EQ(use_count(kFirst), 1) << "a rejected call must not retain the pool";
  end_route(kFirst);
  EXPECT_EQ(engine_->end_routing(kFirst).kind(), StatusKind::kInvalidArgument) << "not routed";
  EXPECT_EQ(engine_->begin_routing({}, any).kind(), StatusKind::kInvalidArgument)
      << "the default pool";
}

TEST_F(PoolsTest, RequiresReleaseByEveryOwner) {
  start();
  must(engine_->create_pool(kFirst, {}));
  EXPECT_EQ(use_count(kFirst), 1);
  route(kFirst);
  EXPECT_EQ(use_count(kFirst), 2);
  cache(20 * kMiB);
  end_route(kFirst);
  must(engine_->release_pool(kFirst));
  trim();
  EXPECT_TRUE(exists(kFirst));
  EXPECT_EQ(calls(DeviceCall::kFree), 0U) << "still in use: must not be freed";
  must(engine_->release_pool(kFirst));
  EXPECT_EQ(calls(DeviceCall::kFree), 0U) << "the memory returns with the next trim";
  trim();
  EXPECT_EQ(calls(DeviceCall::kFree), 1U);
  EXPECT_FALSE(exists(kFirst));
}

TEST_F(PoolsTest, FreeablePoolLivesWithItsBlocks) {
  start();
  route(kFirst);
  Block* kept = allocate(20 * kMiB);
  cache(40 * kMiB);
  end_route(kFirst);
  must(engine_->release_pool(kFirst));
  trim();
  EXPECT_EQ(calls(DeviceCall::kFree), 1U) << "unused memory must be released";
  EXPECT_TRUE(exists(kFirst));
  free(kept);
  trim(kFirst);
  EXPECT_FALSE(exists(kFirst));
}

TEST_F(PoolsTest, ExpandablePoolEndsWithItsMemory) {
  AllocatorOptions options;
  options.expandable_segments = true;
  start(options);
  route(kFirst);
  Block* first = allocate(20 * kMiB);  // the segment grows twice and is released once
  Block* second = allocate(20 * kMiB);
  end_route(kFirst);
  free(first);
  free(second);
  must(engine_->release_pool(kFirst));
  trim();
  EXPECT_FALSE(exists(kFirst));
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_F(PoolsTest, TrimAffectsOnlyItsPool) {
  start();
  cache(20 * kMiB);
  for (PoolId pool : {kFirst, kSecond}) {
    route(pool);
    cache(20 * kMiB);
    end_route(pool);
    must(engine_->release_pool(pool));
  }
  trim(kFirst);
  EXPECT_EQ(calls(DeviceCall::kFree), 1U);
  EXPECT_FALSE(exists(kFirst));
  EXPECT_TRUE(exists(kSecond));
}

TEST_F(PoolsTest, TrimWaitsForPendingFreesOfItsPool) {
  start();
  const StreamId done = new_stream();
  const StreamId busy = busy_stream();
  Block* unrelated = allocate(20 * kMiB);
  use_on(unrelated, busy);
  free(unrelated);
  route(kFirst);
  Block* pending = allocate(20 * kMiB);
  end_route(kFirst);
  use_on(pending, done);
  free(pending);
  must(engine_->release_pool(kFirst));
  trim(kFirst);
  EXPECT_FALSE(exists(kFirst));
  finish(busy);
}

TEST_F(PoolsTest, TrimIgnoresRetainedPool) {
  start();
  route(kFirst);
  cache(20 * kMiB);
  end_route(kFirst);
  trim(kFirst);
  EXPECT_EQ(calls(DeviceCall::kFree), 0U);
  EXPECT_EQ(use_count(kFirst), 1);
  must(engine_->release_pool(kFirst));
  trim(kFirst);
  EXPECT_EQ(calls(DeviceCall::kFree), 1U);
}

TEST_F(PoolsTest, TrimRejectsUnknownPool) {
  start();
  EXPECT_EQ(engine_->trim(kFirst).kind(), StatusKind::kInvalidArgument);
  must(engine_->create_pool(kFirst, {}));
  must(engine_->release_pool(kFirst));
  trim(kFirst);
  EXPECT_EQ(engine_->trim(kFirst).kind(), StatusKind::kInvalidArgument);
}

TEST_F(PoolsTest, RejectsUseOfReleasedPool) {
  start();
  route(kFirst);
  allocate(512);
  end_route(kFirst);
  must(engine_->release_pool(kFirst));
  EXPECT_EQ(engine_->begin_routing(kFirst, [](StreamId) { return true; }).kind(),
            StatusKind::kInvalidArgument);
  EXPECT_EQ(engine_->retain_pool(kFirst).kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(engine_->release_pool(kFirst).kind(), StatusKind::kInvalidArgument) << "below zero";
  EXPECT_EQ(engine_->create_pool(kFirst, {}).kind(), StatusKind::kInvalidArgument)
      << "the pool still exists";
}

TEST_F(PoolsTest, RejectsUnknownPool) {
  start();
  EXPECT_EQ(engine_->release_pool(kFirst).kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(engine_->retain_pool(kFirst).kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(engine_->pool_use_count(kFirst).status().kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(engine_->create_pool({}, {}).kind(), StatusKind::kInvalidArgument)
      << "the default pool";
}

TEST_F(PoolsTest, NoSplitPoolHasOneBlockPerSegment) {
  start();
  must(engine_->create_pool(kFirst, {.no_split = true}));
  route(kFirst);
  Block* first = allocate(512);
  Block* second = allocate(512);
  EXPECT_EQ(first->bytes, 2 * kMiB);
  EXPECT_EQ(calls(DeviceCall::kAllocate), 2U);
  free(first);
  free(second);
}

// --- overflow pools

TEST_F(PoolsTest, OnlyOverflowPoolsLend) {
  start();
  route(kFirst);
  const DeviceAddress own = cache(40 * kMiB);
  end_route(kFirst);
  inject_out_of_memory(DeviceCall::kAllocate, 1);
  EXPECT_NE(allocate(40 * kMiB)->address, own);
}

TEST_F(PoolsTest, BorrowedBlockReturnsToItsPool) {
  start();
  must(engine_->create_pool(kFirst, {.use_on_oom = true}));
  route(kFirst);
  const DeviceAddress own = cache(40 * kMiB);
  end_route(kFirst);
  inject_out_of_memory(DeviceCall::kAllocate, 1);
  Block* lent = allocate(40 * kMiB);
  EXPECT_EQ(lent->address, own);
  free(lent);
  route(kFirst);
  EXPECT_EQ(allocate(40 * kMiB)->address, own);
}

TEST_F(PoolsTest, PrivatePoolDoesNotBorrow) {
  start();
  must(engine_->create_pool(kFirst, {.use_on_oom = true}));
  route(kFirst);
  const DeviceAddress own = cache(40 * kMiB);
  end_route(kFirst);
  route(kSecond);
  inject_out_of_memory(DeviceCall::kAllocate, 1);
  EXPECT_NE(allocate(40 * kMiB)->address, own);
}

// --- sources

class SourceTest : public PoolsTest {
 protected:
  void start_with_source(const AllocatorOptions& options = {}) {
    start(options);
    must(engine_->create_pool(kFirst, {.source = source_}));
    route(kFirst);
  }
  std::shared_ptr<CountingSource> source_ = std::make_shared<CountingSource>();
};

TEST_F(SourceTest, SourceProvidesAndFreesSegments) {
  start_with_source();
  Block* first = allocate(5 * kMiB);
  Block* second = allocate(5 * kMiB);
  EXPECT_EQ(second->address, first->end()) << "split and cached like any other";
  EXPECT_EQ(source_->held.size(), 1U);
  EXPECT_EQ(calls(DeviceCall::kAllocate), 0U);
  free(first);
  free(second);
  end_route(kFirst);
  must(engine_->release_pool(kFirst));
  must(engine_->release_pool(kFirst));
  trim();
  EXPECT_TRUE(source_->held.empty());
  EXPECT_EQ(calls(DeviceCall::kFree), 0U);
}

TEST_F(SourceTest, SourceOverridesExpandableSegments) {
  AllocatorOptions options;
  options.expandable_segments = true;
  start_with_source(options);
  EXPECT_EQ(as_classic(allocate(5 * kMiB))->expandable, nullptr);
  EXPECT_EQ(source_->held.size(), 1U);
}

TEST_F(SourceTest, RetriesSourceAfterFlush) {
  start_with_source();
  source_->refusals = 1;
  EXPECT_NE(allocate(5 * kMiB), nullptr);
  EXPECT_EQ(stats().alloc_retries, 1);
  source_->refusals = 2;
  const Status refusal = allocation_error(50 * kMiB);
  EXPECT_TRUE(refusal.is_out_of_memory());
  EXPECT_NE(refusal.message().find("Pool {0, 1} has its own source: the source is empty."),
            std::string::npos)
      << refusal.to_string();
}

TEST_F(SourceTest, DestructorReturnsSegmentsToSource) {
  start_with_source();
  allocate(5 * kMiB);
  allocate(512);
  engine_.reset();
  EXPECT_TRUE(source_->held.empty());
}

TEST_F(SourceTest, SourceMayCallTheEngine) {
  start_with_source();
  int64_t seen = -1;
  source_->on_allocate = [&] { seen = engine_->stats().allocation.all.current; };
  Block* block = allocate(5 * kMiB);
  EXPECT_EQ(seen, 0);
  free(block);
  end_route(kFirst);
  must(engine_->release_pool(kFirst));
  must(engine_->release_pool(kFirst));
  source_->on_free = [&] { seen = engine_->stats().segment.all.current; };
  trim();
  EXPECT_EQ(seen, 0);
}

TEST_F(SourceTest, LimitCountsMemoryInFlight) {
  start_with_source();
  must(engine_->set_memory_fraction(50.0 / 1024));
  Status nested;
  source_->on_allocate = [&] {
    source_->on_allocate = nullptr;
    nested = engine_->allocate({30 * kMiB, kDefaultStream}).status();
  };
  EXPECT_NE(allocate(30 * kMiB), nullptr);
  EXPECT_EQ(nested.kind(), StatusKind::kOutOfMemory) << "60 MiB exceed the limit of 50";
}

TEST_F(SourceTest, PoolSurvivesReleaseDuringAllocation) {
  start_with_source();
  source_->on_allocate = [&] {
    must(engine_->end_routing(kFirst));
    must(engine_->release_pool(kFirst));
    must(engine_->release_pool(kFirst));
    must(engine_->trim({}));
  };
  Block* block = allocate(5 * kMiB);
  must(engine_->validate());
  free(block);
  trim();
  EXPECT_FALSE(exists(kFirst));
  EXPECT_TRUE(source_->held.empty());
}

TEST_F(PoolsTest, ReleasedPoolLivesWhileRouted) {
  start();
  route(kUserPool);
  must(engine_->release_pool(kUserPool));
  trim(kUserPool);
  trim();
  Block* block = allocate(512);
  EXPECT_EQ(stats().pools.at(kUserPool).allocation.current, 1);
  end_route(kUserPool);
  free(block);
  trim(kUserPool);
  EXPECT_FALSE(stats().pools.contains(kUserPool));
}

}  // namespace
}  // namespace ashlar::classic
