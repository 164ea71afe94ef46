// SPDX-License-Identifier: Apache-2.0
//
// Tests trim_to, which releases memory down to a target, without waiting unless requested.
#include "engine_contract.h"

namespace ashlar::contract {

uint64_t EngineTrimContract::host_wait_count() {
  const std::optional<sim::CallCosts> costs = machine_->costs(kDevice);
  EXPECT_TRUE(costs) << "this machine does not count its calls";
  if (!costs) return 0;
  return costs->count_of(DeviceCall::kSynchronizeStream) +
         costs->count_of(DeviceCall::kSynchronizeEvent) +
         costs->count_of(DeviceCall::kSynchronizeDevice);
}

void EngineTrimContract::fill_cache(size_t bytes, int count, StreamId stream) {
  std::vector<Block*> blocks;
  for (int i = 0; i < count; ++i) blocks.push_back(allocate(bytes, stream));
  for (Block* block : blocks) free(block);
}

TEST_P(EngineTrimContract, ReleasesAndReportsBytesAboveTheTarget) {
  fill_cache(20 * kMiB, 8);
  const size_t before = reserved_bytes();
  const size_t used = used_bytes();
  const size_t given = trim_to(100 * kMiB);
  EXPECT_LE(reserved_bytes(), 100 * kMiB);
  EXPECT_GE(reserved_bytes(), 70 * kMiB) << "far more was released than requested";
  EXPECT_EQ(given, before - reserved_bytes());
  EXPECT_EQ(given, used - used_bytes());
}

TEST_P(EngineTrimContract, ReleasesNothingBelowTheTarget) {
  fill_cache(20 * kMiB, 3);
  const size_t before = reserved_bytes();
  EXPECT_EQ(trim_to(before), 0U);
  EXPECT_EQ(trim_to(SIZE_MAX), 0U);
  EXPECT_EQ(reserved_bytes(), before);
}

TEST_P(EngineTrimContract, ReleasesAllFreeMemoryForTargetZero) {
  fill_cache(512, 10);
  fill_cache(5 * kMiB, 3, create_stream());
  fill_cache(40 * kMiB, 2);
  trim_to(0);
  EXPECT_EQ(used_bytes(), 0U);
  fill(allocate(3 * kMiB), 1);
}

TEST_P(EngineTrimContract, KeepsBlocksInUse) {
  Block* small = allocate(512);
  Block* large = allocate(20 * kMiB);
  fill(small, 3);
  fill(large, 4);
  require_ok(device().synchronize_stream(kDefaultStream));
  fill_cache(40 * kMiB, 1);
  EXPECT_GE(trim_to(0), 40 * kMiB);
  EXPECT_GE(reserved_bytes(), 20 * kMiB);
  EXPECT_TRUE(contains(small, 3));
  EXPECT_TRUE(contains(large, 4));
}

TEST_P(EngineTrimContract, KeepsMemoryOfQueuedWorkWithoutWaiting) {
  const StreamId busy = busy_stream();
  Block* block = allocate(40 * kMiB, busy);
  fill(block, 7);
  free(block);
  const uint64_t before = host_wait_count();
  trim_to(0);
  EXPECT_EQ(host_wait_count(), before);
  EXPECT_GE(reserved_bytes(), 40 * kMiB);
  resume_stream(busy);
  trim_to(0);
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_P(EngineTrimContract, ReusesMemoryThatWasKept) {
  const StreamId busy = busy_stream();
  free(allocate(40 * kMiB, busy));
  trim_to(0);
  const size_t reserved = reserved_bytes();
  fill(allocate(40 * kMiB, busy), 1);
  EXPECT_EQ(reserved_bytes(), reserved);
}

TEST_P(EngineTrimContract, ReleasesPendingFreesWhenStreamsFinish) {
  const StreamId busy = busy_stream();
  Block* block = allocate(40 * kMiB);
  record_stream(block, busy);
  free(block);
  const uint64_t before = host_wait_count();
  EXPECT_EQ(trim_to(0), 0U);
  EXPECT_EQ(host_wait_count(), before);
  resume_stream(busy);
  EXPECT_GE(trim_to(0), 40 * kMiB);
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_P(EngineTrimContract, WaitsWhenRequested) {
  const StreamId stream = create_stream();
  Block* block = allocate(40 * kMiB, stream);
  for (int i = 0; i < 4; ++i) fill(block, 7);
  free(block);
  const uint64_t before = host_wait_count();
  EXPECT_GE(trim_to(0, TrimWait::kForWork), 40 * kMiB);
  EXPECT_GT(host_wait_count(), before);
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_P(EngineTrimContract, KeepsARetainedPoolAndTrimsItOnceReleased) {
  constexpr PoolId kPool{0, 1};
  route_to(kPool);
  fill_cache(20 * kMiB, 1);
  end_routing(kPool);
  const size_t held = reserved_bytes();
  EXPECT_EQ(trim_to(0), 0U);
  EXPECT_EQ(reserved_bytes(), held);
  require_ok(engine().release_pool(kPool));
  EXPECT_EQ(trim_to(0), held);
  EXPECT_EQ(used_bytes(), 0U);
  EXPECT_FALSE(pool_exists(kPool));
}

TEST_P(EngineTrimContract, ReleasesUnretainedPoolsFirst) {
  constexpr PoolId kPool{0, 1};
  fill_cache(20 * kMiB, 2);
  const size_t wanted = reserved_bytes();
  route_to(kPool);
  fill_cache(30 * kMiB, 1);
  end_routing(kPool);
  require_ok(engine().release_pool(kPool));
  trim_to(wanted);
  EXPECT_EQ(reserved_bytes(), wanted);
  EXPECT_FALSE(pool_exists(kPool));
}

}  // namespace ashlar::contract
