// SPDX-License-Identifier: Apache-2.0
//
// Tests pools: routing, isolation, retention, segment sources and fallback.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <thread>

#include "engine_contract.h"

namespace ashlar::contract {
namespace {

constexpr PoolId kFirst{0, 1};
constexpr PoolId kSecond{0, 2};

// A segment source that allocates from the device and counts its segments.
class CountingSource final : public SegmentSource {
 public:
  explicit CountingSource(Device& device) : device_(device) {}

  Result<DeviceAddress> allocate(size_t bytes, StreamId) override {
    if (before_allocate) before_allocate();
    ++allocate_count;
    if (is_empty) return Status::out_of_memory("the source is empty");
    Result<DeviceAddress> at = device_.allocate(bytes);
    if (at.ok()) out[*at] = bytes;
    return at;
  }
  void free(DeviceAddress address, size_t bytes) override {
    if (before_free) before_free();
    const auto found = out.find(address);
    ASSERT_NE(found, out.end()) << "freed twice, or never allocated";
    EXPECT_EQ(found->second, bytes);
    out.erase(found);
    EXPECT_TRUE(ok(device_.free(address)));
  }
  bool covers(const Block* block) const {
    const auto after = out.upper_bound(block->address);
    if (after == out.begin()) return false;
    const auto& [address, bytes] = *std::prev(after);
    return AddressRange{address, bytes}.contains(AddressRange{block->address, block->bytes});
  }

  std::function<void()> before_allocate;
  std::function<void()> before_free;
  bool is_empty = false;
  int allocate_count = 0;
  std::map<DeviceAddress, size_t> out;

 private:
  Device& device_;
};

bool overlap(AddressRange a, AddressRange b) { return a.begin < b.end() && b.begin < a.end(); }

AddressRange range_of(const Block* block) { return {block->address, block->bytes}; }

}  // namespace

TEST_P(EnginePoolsContract, PoolCacheServesOnlyThatPool) {
  route_to(kFirst);
  Block* inside = allocate(5 * kMiB);
  const AddressRange cached = range_of(inside);
  free(inside);
  end_routing(kFirst);
  Block* outside = allocate(5 * kMiB);
  EXPECT_FALSE(overlap(range_of(outside), cached));
  const AddressRange cached_outside = range_of(outside);
  free(outside);
  route_to(kSecond);
  Block* elsewhere = allocate(5 * kMiB);
  EXPECT_FALSE(overlap(range_of(elsewhere), cached));
  EXPECT_FALSE(overlap(range_of(elsewhere), cached_outside));
  end_routing(kSecond);
}

TEST_P(EnginePoolsContract, LatestRouteDeterminesThePool) {
  const StreamId stream = create_stream();
  route_to(kFirst);
  route_to(kSecond, stream);
  EXPECT_EQ(pool_of(allocate(512, stream)), kSecond);
  EXPECT_EQ(pool_of(allocate(512)), kFirst) << "the last route's filter rejects it";
  end_routing(kSecond);
  EXPECT_EQ(pool_of(allocate(512, stream)), kFirst);
  end_routing(kFirst);
  EXPECT_EQ(pool_of(allocate(512, stream)), PoolId{});
}

TEST_P(EnginePoolsContract, RoutesMayEndOutOfOrder) {
  route_to(kFirst);
  route_to(kSecond);
  end_routing(kFirst);
  EXPECT_EQ(pool_of(allocate(512)), kSecond);
  end_routing(kSecond);
}

TEST_P(EnginePoolsContract, FreedBlockReturnsToItsOwnPool) {
  route_to(kFirst);
  Block* block = allocate(5 * kMiB);
  const AddressRange cached = range_of(block);
  end_routing(kFirst);
  route_to(kSecond);
  free(block);
  EXPECT_FALSE(overlap(range_of(allocate(5 * kMiB)), cached));
  end_routing(kSecond);
}

TEST_P(EnginePoolsContract, RejectsInvalidPoolCalls) {
  const RouteFilter all = [](StreamId) { return true; };
  const auto expect_invalid_argument = [](const Status& status) {
    EXPECT_EQ(status.kind(), StatusKind::kInvalidArgument) << status.to_string();
  };
  expect_invalid_argument(engine().create_pool({}, {}));
  expect_invalid_argument(engine().begin_routing({}, all));
  expect_invalid_argument(engine().end_routing(kFirst));
  expect_invalid_argument(engine().retain_pool(kFirst));
  expect_invalid_argument(engine().release_pool(kFirst));
  expect_invalid_argument(engine().trim(kFirst));
  expect_invalid_argument(engine().pool_use_count(kFirst).status());
  EXPECT_FALSE(pool_exists(kFirst));

  require_ok(engine().create_pool(kFirst, {}));
  expect_invalid_argument(engine().create_pool(kFirst, {}));
  route_to(kFirst);
  expect_invalid_argument(engine().begin_routing(kFirst, all));
  EXPECT_EQ(require_ok(engine().pool_use_count(kFirst)), 2) << "failed calls must not be counted";
  end_routing(kFirst);
  expect_invalid_argument(engine().end_routing(kFirst));
  require_ok(engine().release_pool(kFirst));
  require_ok(engine().release_pool(kFirst));
  expect_invalid_argument(engine().release_pool(kFirst));
  expect_invalid_argument(engine().retain_pool(kFirst));
  expect_invalid_argument(engine().begin_routing(kFirst, all));
  require_ok(engine().trim(kFirst));
  EXPECT_FALSE(pool_exists(kFirst));
}

TEST_P(EnginePoolsContract, KeepsPoolMemoryUntilLastReleaseAndTrim) {
  require_ok(engine().create_pool(kFirst, {}));
  require_ok(engine().retain_pool(kFirst));
  route_to(kFirst);
  free(allocate(5 * kMiB));
  end_routing(kFirst);
  const size_t used = used_bytes();
  for (int holders = 3; holders > 0; --holders) {
    EXPECT_EQ(require_ok(engine().pool_use_count(kFirst)), holders);
    require_ok(engine().trim());
    require_ok(engine().trim(kFirst));
    EXPECT_EQ(used_bytes(), used) << "the pool is still retained";
    require_ok(engine().release_pool(kFirst));
  }
  require_ok(engine().trim(kFirst));
  EXPECT_EQ(used_bytes(), 0U);
  EXPECT_FALSE(pool_exists(kFirst));
}

TEST_P(EnginePoolsContract, KeepsMemoryOfARoutedPoolAfterRelease) {
  route_to(kFirst);
  free(allocate(5 * kMiB));
  const size_t used = used_bytes();
  require_ok(engine().release_pool(kFirst));
  require_ok(engine().trim());
  require_ok(engine().trim(kFirst));
  EXPECT_EQ(used_bytes(), used);
  end_routing(kFirst);
  require_ok(engine().trim(kFirst));
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_P(EnginePoolsContract, LiveBlockKeepsAReleasedPool) {
  route_to(kFirst);
  Block* kept = allocate(5 * kMiB);
  fill(kept, 9);
  end_routing(kFirst);
  require_ok(engine().release_pool(kFirst));
  require_ok(engine().trim());
  EXPECT_TRUE(pool_exists(kFirst));
  EXPECT_TRUE(contains(kept, 9));
  free(kept);
  require_ok(engine().trim());
  EXPECT_FALSE(pool_exists(kFirst));
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_P(EnginePoolsContract, TrimPoolLeavesOtherPoolsAlone) {
  for (PoolId pool : {kFirst, kSecond}) {
    route_to(pool);
    free(allocate(5 * kMiB));
    end_routing(pool);
    require_ok(engine().release_pool(pool));
  }
  const size_t used = used_bytes();
  require_ok(engine().trim(kFirst));
  EXPECT_LT(used_bytes(), used);
  EXPECT_GT(used_bytes(), 0U);
  EXPECT_TRUE(pool_exists(kSecond));
}

TEST_P(EnginePoolsContract, TrimPoolWaitsForItsPendingFrees) {
  const StreamId used = busy_stream();
  route_to(kFirst);
  Block* block = allocate(5 * kMiB);
  end_routing(kFirst);
  record_stream(block, used);
  free(block);
  require_ok(engine().release_pool(kFirst));
  require_ok(machine_->resume_stream(kDevice, used));
  require_ok(engine().trim(kFirst));
  EXPECT_FALSE(pool_exists(kFirst));
  EXPECT_EQ(used_bytes(), 0U);
}

// --- segment sources

TEST_P(EnginePoolsContract, PoolAllocatesFromItsSegmentSource) {
  const auto source = std::make_shared<CountingSource>(device());
  require_ok(engine().create_pool(kFirst, {.source = source}));
  route_to(kFirst);
  Block* small = allocate(512);
  Block* large = allocate(30 * kMiB);
  end_routing(kFirst);
  EXPECT_TRUE(source->covers(small));
  EXPECT_TRUE(source->covers(large));
  EXPECT_FALSE(source->covers(allocate(512)));
  fill(large, 1);
  EXPECT_TRUE(contains(large, 1));
  free(small);
  free(large);
  require_ok(engine().release_pool(kFirst));
  require_ok(engine().release_pool(kFirst));
  require_ok(engine().trim());
  EXPECT_TRUE(source->out.empty());
  EXPECT_FALSE(pool_exists(kFirst));
}

TEST_P(EnginePoolsContract, SegmentSourceMayCallTheEngine) {
  const auto source = std::make_shared<CountingSource>(device());
  require_ok(engine().create_pool(kFirst, {.source = source}));
  const StreamId inner = create_stream();
  source->before_allocate = [&] { free(allocate(512, inner)); };
  const StreamId outer = create_stream();
  route_to(kFirst, outer);
  allocate(kMiB, outer);
  end_routing(kFirst);
  EXPECT_EQ(source->allocate_count, 1);
}

// While the source frees a segment, the device appears full to the default pool. An allocation must
// wait for the free instead of reporting out of memory.
TEST_P(EnginePoolsContract, WaitsForSegmentsReturningToTheirSource) {
  const auto source = std::make_shared<CountingSource>(device());
  require_ok(engine().create_pool(kFirst, {.source = source}));
  route_to(kFirst);
  Block* block = require_ok(engine().allocate({200 * kMiB, kDefaultStream}));
  end_routing(kFirst);
  require_ok(engine().release_pool(kFirst));
  require_ok(engine().release_pool(kFirst));
  std::atomic<bool> is_leaving = false;
  source->before_free = [&] {
    is_leaving = true;
    is_leaving.notify_all();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  };
  const std::jthread releaser([&] {
    EXPECT_TRUE(ok(engine().free(block)));
    EXPECT_TRUE(ok(engine().trim()));
  });
  is_leaving.wait(false);
  allocate(200 * kMiB);
}

TEST_P(EnginePoolsContract, ReportsOutOfMemoryAndRetriesWhenSourceIsEmpty) {
  const auto source = std::make_shared<CountingSource>(device());
  require_ok(engine().create_pool(kFirst, {.source = source}));
  source->is_empty = true;
  route_to(kFirst);
  EXPECT_EQ(allocation_error(kMiB).kind(), StatusKind::kOutOfMemory);
  EXPECT_GE(source->allocate_count, 1);
  source->is_empty = false;
  EXPECT_TRUE(source->covers(allocate(kMiB)));
  end_routing(kFirst);
}

TEST_P(EnginePoolsContract, DestructorReturnsSegmentsToTheirSource) {
  // Only the pool owns the source, and must keep it alive until the source's segments are returned.
  require_ok(engine().create_pool(kFirst, {.source = std::make_shared<CountingSource>(device())}));
  route_to(kFirst);
  allocate(kMiB);
  free(allocate(5 * kMiB));
}

TEST_P(EnginePoolsContract, PoolMayHaveOneBlockPerSegment) {
  const auto source = std::make_shared<CountingSource>(device());
  require_ok(engine().create_pool(kFirst, {.source = source, .no_split = true}));
  route_to(kFirst);
  for (size_t bytes : {size_t{512}, size_t{512}, 3 * kMiB, 3 * kMiB}) {
    EXPECT_TRUE(source->out.contains(allocate(bytes)->address)) << "not at the segment's beginning";
  }
  EXPECT_EQ(source->out.size(), 4U);
  end_routing(kFirst);
}

TEST_P(EnginePoolsContract, ImpossibleSizesAreOutOfMemoryInUnsplitPools) {
  require_ok(engine().create_pool(kFirst, {.no_split = true}));
  route_to(kFirst);
  for (int bit = 40; bit < 64; ++bit) {
    EXPECT_EQ(allocation_error(size_t{1} << bit).kind(), StatusKind::kOutOfMemory) << bit;
  }
  EXPECT_NE(allocate(3 * kMiB), nullptr);
  end_routing(kFirst);
}

TEST_P(EnginePoolsContract, FallbackPoolServesWhenNothingElseIsLeft) {
  const auto source = std::make_shared<CountingSource>(device());
  require_ok(engine().create_pool(kFirst, {.source = source, .use_on_oom = true}));
  require_ok(engine().create_pool(kSecond, {.source = source}));
  for (PoolId pool : {kFirst, kSecond}) {
    route_to(pool);
    free(allocate(20 * kMiB));
    end_routing(pool);
  }
  const std::vector<Block*> blocks = allocate_until_full(20 * kMiB);
  int lent_count = 0;
  for (Block* block : blocks) lent_count += source->covers(block) ? 1 : 0;
  EXPECT_EQ(lent_count, 1) << "only from the fallback pool";
  for (Block* block : blocks) {
    if (source->covers(block)) {
      EXPECT_EQ(pool_of(block), kFirst) << "the pool must keep the memory";
    }
  }
}

TEST_P(EnginePoolsContract, PoolOptionsChangeAfterCreation) {
  const auto source = std::make_shared<CountingSource>(device());
  require_ok(engine().create_pool(kFirst, {.source = source}));
  require_ok(engine().set_pool_no_split(kFirst));
  route_to(kFirst);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(source->out.contains(allocate(512)->address));
  free(allocate(20 * kMiB));
  end_routing(kFirst);
  EXPECT_EQ(engine().set_pool_no_split(kFirst).kind(), StatusKind::kInvalidArgument);
  require_ok(engine().set_pool_use_on_oom(kFirst, true));
  std::vector<Block*> blocks = allocate_until_full(20 * kMiB);
  const auto is_lent = [&](const Block* block) { return source->covers(block); };
  const auto lent = std::find_if(blocks.begin(), blocks.end(), is_lent);
  ASSERT_NE(lent, blocks.end());
  free(*lent);
  require_ok(engine().set_pool_use_on_oom(kFirst, false));
  for (const Block* block : allocate_until_full(20 * kMiB)) EXPECT_FALSE(source->covers(block));
}

TEST_P(EnginePoolsContract, OptionsOfOtherPoolsCannotChange) {
  for (const PoolId pool : {PoolId(), kSecond}) {
    EXPECT_EQ(engine().set_pool_no_split(pool).kind(), StatusKind::kInvalidArgument);
    EXPECT_EQ(engine().set_pool_use_on_oom(pool, true).kind(), StatusKind::kInvalidArgument);
  }
}

TEST_P(EnginePoolsContract, ReleasedPoolIsNotAFallback) {
  const auto source = std::make_shared<CountingSource>(device());
  require_ok(engine().create_pool(kFirst, {.source = source, .use_on_oom = true}));
  route_to(kFirst);
  Block* kept = allocate(20 * kMiB);
  free(allocate(20 * kMiB));
  end_routing(kFirst);
  while (require_ok(engine().pool_use_count(kFirst)) > 0) require_ok(engine().release_pool(kFirst));
  for (Block* block : allocate_until_full(20 * kMiB)) EXPECT_FALSE(source->covers(block));
  free(kept);
}

TEST_P(EnginePoolsContract, PausesATaggedPoolOrReportsUnsupported) {
  PoolOptions options;
  options.tag = "weights";
  require_ok(engine().create_pool(kFirst, options));
  route_to(kFirst);
  Block* block = allocate(5 * kMiB);
  end_routing(kFirst);
  fill(block, 7);
  const size_t before_bytes = used_bytes();
  const Status paused = engine().pause("weights", true);
  if (!paused.ok()) {
    EXPECT_EQ(paused.kind(), StatusKind::kUnsupported) << paused.to_string();
    EXPECT_EQ(used_bytes(), before_bytes);
    EXPECT_TRUE(contains(block, 7));
    return;
  }
  EXPECT_LT(used_bytes(), before_bytes);
  require_ok(engine().resume("weights"));
  EXPECT_EQ(used_bytes(), before_bytes);
  EXPECT_TRUE(contains(block, 7));
}

}  // namespace ashlar::contract
