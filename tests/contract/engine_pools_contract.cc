// SPDX-License-Identifier: Apache-2.0
//
// Pools: what is allocated from them, what it shares with others, and when it goes.
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

// Gives out the device's memory, and counts.
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
    ASSERT_NE(found, out.end()) << "given back twice, or never given out";
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

TEST_P(EnginePoolsContract, MemoryThatAPoolHasCachedServesNobodyElse) {
  route(kFirst);
  Block* inside = allocate(5 * kMiB);
  const AddressRange cached = range_of(inside);
  free(inside);
  end_route(kFirst);
  Block* outside = allocate(5 * kMiB);
  EXPECT_FALSE(overlap(range_of(outside), cached));
  const AddressRange cached_outside = range_of(outside);
  free(outside);
  route(kSecond);
  Block* elsewhere = allocate(5 * kMiB);
  EXPECT_FALSE(overlap(range_of(elsewhere), cached));
  EXPECT_FALSE(overlap(range_of(elsewhere), cached_outside));
  end_route(kSecond);
}

TEST_P(EnginePoolsContract, AllocationsGoWhereTheRouteNamedLastSendsThem) {
  const StreamId stream = new_stream();
  route(kFirst);
  route(kSecond, stream);
  EXPECT_EQ(pool_of(allocate(512, stream)), kSecond);
  EXPECT_EQ(pool_of(allocate(512)), kFirst) << "the last route does not want it";
  end_route(kSecond);
  EXPECT_EQ(pool_of(allocate(512, stream)), kFirst);
  end_route(kFirst);
  EXPECT_EQ(pool_of(allocate(512, stream)), PoolId{});
}

TEST_P(EnginePoolsContract, ARouteThatEndsOutOfOrderLeavesTheOthers) {
  route(kFirst);
  route(kSecond);
  end_route(kFirst);
  EXPECT_EQ(pool_of(allocate(512)), kSecond);
  end_route(kSecond);
}

TEST_P(EnginePoolsContract, ABlockReturnsToItsOwnPoolWhateverIsRoutedThen) {
  route(kFirst);
  Block* block = allocate(5 * kMiB);
  const AddressRange cached = range_of(block);
  end_route(kFirst);
  route(kSecond);
  free(block);
  EXPECT_FALSE(overlap(range_of(allocate(5 * kMiB)), cached));
  end_route(kSecond);
}

TEST_P(EnginePoolsContract, MistakesWithPoolsAreToldAndChangeNothing) {
  const RouteFilter all = [](StreamId) { return true; };
  const auto expect_usage = [](const Status& status) {
    EXPECT_EQ(status.kind(), StatusKind::kInvalidArgument) << status.to_string();
  };
  expect_usage(engine().create_pool({}, {}));
  expect_usage(engine().begin_routing({}, all));
  expect_usage(engine().end_routing(kFirst));
  expect_usage(engine().retain_pool(kFirst));
  expect_usage(engine().release_pool(kFirst));
  expect_usage(engine().trim(kFirst));
  expect_usage(engine().pool_use_count(kFirst).status());
  EXPECT_FALSE(exists(kFirst));

  must(engine().create_pool(kFirst, {}));
  expect_usage(engine().create_pool(kFirst, {}));
  route(kFirst);
  expect_usage(engine().begin_routing(kFirst, all));
  EXPECT_EQ(must(engine().pool_use_count(kFirst)), 2) << "one for each, and none for mistakes";
  end_route(kFirst);
  expect_usage(engine().end_routing(kFirst));
  must(engine().release_pool(kFirst));
  must(engine().release_pool(kFirst));
  expect_usage(engine().release_pool(kFirst));
  expect_usage(engine().retain_pool(kFirst));
  expect_usage(engine().begin_routing(kFirst, all));
  must(engine().trim(kFirst));
  EXPECT_FALSE(exists(kFirst));
}

TEST_P(EnginePoolsContract, APoolsMemoryStaysUntilTheLastHolderHasLetGoAndATrim) {
  must(engine().create_pool(kFirst, {}));
  must(engine().retain_pool(kFirst));
  route(kFirst);
  free(allocate(5 * kMiB));
  end_route(kFirst);
  const size_t used = used_bytes();
  for (int holders = 3; holders > 0; --holders) {
    EXPECT_EQ(must(engine().pool_use_count(kFirst)), holders);
    must(engine().trim());
    must(engine().trim(kFirst));
    EXPECT_EQ(used_bytes(), used) << "somebody still holds it";
    must(engine().release_pool(kFirst));
  }
  must(engine().trim(kFirst));
  EXPECT_EQ(used_bytes(), 0U);
  EXPECT_FALSE(exists(kFirst));
}

TEST_P(EnginePoolsContract, APoolThatIsRoutedToKeepsItsMemoryThoughNobodyHoldsIt) {
  route(kFirst);
  free(allocate(5 * kMiB));
  const size_t used = used_bytes();
  must(engine().release_pool(kFirst));
  must(engine().trim());
  must(engine().trim(kFirst));
  EXPECT_EQ(used_bytes(), used);
  end_route(kFirst);
  must(engine().trim(kFirst));
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_P(EnginePoolsContract, ALiveBlockKeepsAPoolThatWasLetGo) {
  route(kFirst);
  Block* kept = allocate(5 * kMiB);
  fill(kept, 9);
  end_route(kFirst);
  must(engine().release_pool(kFirst));
  must(engine().trim());
  EXPECT_TRUE(exists(kFirst));
  EXPECT_TRUE(holds(kept, 9));
  free(kept);
  must(engine().trim());
  EXPECT_FALSE(exists(kFirst));
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_P(EnginePoolsContract, TrimmingOnePoolLeavesTheOthersAlone) {
  for (PoolId pool : {kFirst, kSecond}) {
    route(pool);
    free(allocate(5 * kMiB));
    end_route(pool);
    must(engine().release_pool(pool));
  }
  const size_t used = used_bytes();
  must(engine().trim(kFirst));
  EXPECT_LT(used_bytes(), used);
  EXPECT_GT(used_bytes(), 0U);
  EXPECT_TRUE(exists(kSecond));
}

TEST_P(EnginePoolsContract, TrimmingAPoolWaitsForItsPendingFrees) {
  const StreamId used = busy_stream();
  route(kFirst);
  Block* block = allocate(5 * kMiB);
  end_route(kFirst);
  use_on(block, used);
  free(block);
  must(engine().release_pool(kFirst));
  must(machine_->resume(kDevice, used));
  must(engine().trim(kFirst));
  EXPECT_FALSE(exists(kFirst));
  EXPECT_EQ(used_bytes(), 0U);
}

// --- sources of segments ------------------------------------------------------------------------

TEST_P(EnginePoolsContract, APoolWithASourceTakesItsMemoryThereAndGivesItBack) {
  const auto source = std::make_shared<CountingSource>(device());
  must(engine().create_pool(kFirst, {.source = source}));
  route(kFirst);
  Block* small = allocate(512);
  Block* large = allocate(30 * kMiB);
  end_route(kFirst);
  EXPECT_TRUE(source->covers(small));
  EXPECT_TRUE(source->covers(large));
  EXPECT_FALSE(source->covers(allocate(512)));
  fill(large, 1);
  EXPECT_TRUE(holds(large, 1));
  free(small);
  free(large);
  must(engine().release_pool(kFirst));
  must(engine().release_pool(kFirst));
  must(engine().trim());
  EXPECT_TRUE(source->out.empty());
  EXPECT_FALSE(exists(kFirst));
}

TEST_P(EnginePoolsContract, ASourceMayCallTheEngine) {
  const auto source = std::make_shared<CountingSource>(device());
  must(engine().create_pool(kFirst, {.source = source}));
  const StreamId inner = new_stream();
  source->before_allocate = [&] { free(allocate(512, inner)); };
  const StreamId outer = new_stream();
  route(kFirst, outer);
  allocate(kMiB, outer);
  end_route(kFirst);
  EXPECT_EQ(source->allocate_count, 1);
}

// Others see the device full meanwhile, though nobody has the memory.
TEST_P(EnginePoolsContract, WhatIsOnItsWayToASourceIsWaitedFor) {
  const auto source = std::make_shared<CountingSource>(device());
  must(engine().create_pool(kFirst, {.source = source}));
  route(kFirst);
  Block* block = must(engine().allocate({200 * kMiB, kDefaultStream}));
  end_route(kFirst);
  must(engine().release_pool(kFirst));
  must(engine().release_pool(kFirst));
  std::atomic<bool> is_leaving = false;
  source->before_free = [&] {
    is_leaving = true;
    is_leaving.notify_all();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  };
  const std::jthread giving_back([&] {
    EXPECT_TRUE(ok(engine().free(block)));
    EXPECT_TRUE(ok(engine().trim()));
  });
  is_leaving.wait(false);
  allocate(200 * kMiB);
}

TEST_P(EnginePoolsContract, AnEmptySourceIsOutOfMemoryAndAskedAgainLater) {
  const auto source = std::make_shared<CountingSource>(device());
  must(engine().create_pool(kFirst, {.source = source}));
  source->is_empty = true;
  route(kFirst);
  EXPECT_EQ(refused(kMiB).kind(), StatusKind::kOutOfMemory);
  EXPECT_GE(source->allocate_count, 1);
  source->is_empty = false;
  EXPECT_TRUE(source->covers(allocate(kMiB)));
  end_route(kFirst);
}

TEST_P(EnginePoolsContract, TheEndOfTheEngineGivesSegmentsBackToTheirSource) {
  // Owned by the pool alone: it must outlive what it gave out.
  must(engine().create_pool(kFirst, {.source = std::make_shared<CountingSource>(device())}));
  route(kFirst);
  allocate(kMiB);
  free(allocate(5 * kMiB));
}

TEST_P(EnginePoolsContract, APoolMayHaveOneBlockPerSegment) {
  const auto source = std::make_shared<CountingSource>(device());
  must(engine().create_pool(kFirst, {.source = source, .no_split = true}));
  route(kFirst);
  for (size_t bytes : {size_t{512}, size_t{512}, 3 * kMiB, 3 * kMiB}) {
    EXPECT_TRUE(source->out.contains(allocate(bytes)->address)) << "not at the segment's beginning";
  }
  EXPECT_EQ(source->out.size(), 4U);
  end_route(kFirst);
}

TEST_P(EnginePoolsContract, APoolThatSaidSoLendsWhatItHasCachedWhenNothingElseIsLeft) {
  const auto source = std::make_shared<CountingSource>(device());
  must(engine().create_pool(kFirst, {.source = source, .use_on_oom = true}));
  must(engine().create_pool(kSecond, {.source = source}));
  for (PoolId pool : {kFirst, kSecond}) {
    route(pool);
    free(allocate(20 * kMiB));
    end_route(pool);
  }
  const std::vector<Block*> blocks = fill_up(20 * kMiB);
  int lent_count = 0;
  for (Block* block : blocks) lent_count += source->covers(block) ? 1 : 0;
  EXPECT_EQ(lent_count, 1) << "of the pool that said so, and of no other";
  for (Block* block : blocks) {
    if (source->covers(block)) {
      EXPECT_EQ(pool_of(block), kFirst) << "it stays the pool's";
    }
  }
}

TEST_P(EnginePoolsContract, APoolThatWasLetGoLendsNothing) {
  const auto source = std::make_shared<CountingSource>(device());
  must(engine().create_pool(kFirst, {.source = source, .use_on_oom = true}));
  route(kFirst);
  Block* kept = allocate(20 * kMiB);
  free(allocate(20 * kMiB));
  end_route(kFirst);
  while (must(engine().pool_use_count(kFirst)) > 0) must(engine().release_pool(kFirst));
  for (Block* block : fill_up(20 * kMiB)) EXPECT_FALSE(source->covers(block));
  free(kept);
}

TEST_P(EnginePoolsContract, APoolWithATagIsPausedOrTheEngineSaysThatItCannotBe) {
  PoolOptions options;
  options.tag = "weights";
  must(engine().create_pool(kFirst, options));
  route(kFirst);
  Block* block = allocate(5 * kMiB);
  end_route(kFirst);
  fill(block, 7);
  const size_t before_bytes = used_bytes();
  const Status paused = engine().pause("weights", true);
  if (!paused.ok()) {
    EXPECT_EQ(paused.kind(), StatusKind::kUnsupported) << paused.to_string();
    EXPECT_EQ(used_bytes(), before_bytes);
    EXPECT_TRUE(holds(block, 7));
    return;
  }
  EXPECT_LT(used_bytes(), before_bytes);
  must(engine().resume("weights"));
  EXPECT_EQ(used_bytes(), before_bytes);
  EXPECT_TRUE(holds(block, 7));
}

}  // namespace ashlar::contract
