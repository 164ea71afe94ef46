// SPDX-License-Identifier: Apache-2.0
//
// Memory back to the device as far as asked for, and with no wait unless asked for.
#include "engine_contract.h"

namespace ashlar::contract {

uint64_t EngineTrimContract::waits() {
  const std::optional<sim::CallCosts> costs = machine_->costs(kDevice);
  EXPECT_TRUE(costs) << "this machine does not count its calls";
  if (!costs) return 0;
  return costs->count_of(DeviceCall::kSynchronizeStream) +
         costs->count_of(DeviceCall::kSynchronizeEvent) +
         costs->count_of(DeviceCall::kSynchronizeDevice);
}

void EngineTrimContract::cache(size_t bytes, int count, StreamId stream) {
  std::vector<Block*> blocks;
  for (int i = 0; i < count; ++i) blocks.push_back(allocate(bytes, stream));
  for (Block* block : blocks) free(block);
}

TEST_P(EngineTrimContract, WhatIsAboveTheTargetGoesBackAndIsSaid) {
  cache(20 * kMiB, 8);
  const size_t before = reserved_bytes();
  const size_t used = used_bytes();
  const size_t given = trim_to(100 * kMiB);
  EXPECT_LE(reserved_bytes(), 100 * kMiB);
  EXPECT_GE(reserved_bytes(), 70 * kMiB) << "much more went than was asked for";
  EXPECT_EQ(given, before - reserved_bytes());
  EXPECT_EQ(given, used - used_bytes());
}

TEST_P(EngineTrimContract, WithNothingAboveTheTargetNothingGoes) {
  cache(20 * kMiB, 3);
  const size_t before = reserved_bytes();
  EXPECT_EQ(trim_to(before), 0U);
  EXPECT_EQ(trim_to(SIZE_MAX), 0U);
  EXPECT_EQ(reserved_bytes(), before);
}

TEST_P(EngineTrimContract, DownToNothingEverythingFreeGoes) {
  cache(512, 10);
  cache(5 * kMiB, 3, new_stream());
  cache(40 * kMiB, 2);
  trim_to(0);
  EXPECT_EQ(used_bytes(), 0U);
  fill(allocate(3 * kMiB), 1);
}

TEST_P(EngineTrimContract, BlocksInUseStayAsTheyAre) {
  Block* small = allocate(512);
  Block* large = allocate(20 * kMiB);
  fill(small, 3);
  fill(large, 4);
  must(device().synchronize_stream(kDefaultStream));
  cache(40 * kMiB, 1);
  EXPECT_GE(trim_to(0), 40 * kMiB);
  EXPECT_GE(reserved_bytes(), 20 * kMiB);
  EXPECT_TRUE(holds(small, 3));
  EXPECT_TRUE(holds(large, 4));
}

TEST_P(EngineTrimContract, MemoryThatQueuedWorkUsesStaysAndNobodyWaits) {
  const StreamId busy = busy_stream();
  Block* block = allocate(40 * kMiB, busy);
  fill(block, 7);
  free(block);
  const uint64_t before = waits();
  trim_to(0);
  EXPECT_EQ(waits(), before);
  EXPECT_GE(reserved_bytes(), 40 * kMiB);
  let_go_on(busy);
  trim_to(0);
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_P(EngineTrimContract, MemoryThatStayedServesAgain) {
  const StreamId busy = busy_stream();
  free(allocate(40 * kMiB, busy));
  trim_to(0);
  const size_t reserved = reserved_bytes();
  fill(allocate(40 * kMiB, busy), 1);
  EXPECT_EQ(reserved_bytes(), reserved);
}

TEST_P(EngineTrimContract, PendingFreesGoOnceTheirStreamsAreDone) {
  const StreamId busy = busy_stream();
  Block* block = allocate(40 * kMiB);
  use_on(block, busy);
  free(block);
  const uint64_t before = waits();
  EXPECT_EQ(trim_to(0), 0U);
  EXPECT_EQ(waits(), before);
  let_go_on(busy);
  EXPECT_GE(trim_to(0), 40 * kMiB);
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_P(EngineTrimContract, AskedToItWaits) {
  const StreamId stream = new_stream();
  Block* block = allocate(40 * kMiB, stream);
  for (int i = 0; i < 4; ++i) fill(block, 7);
  free(block);
  const uint64_t before = waits();
  EXPECT_GE(trim_to(0, TrimWait::kForWork), 40 * kMiB);
  EXPECT_GT(waits(), before);
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_P(EngineTrimContract, APoolIsLeftAloneWhileSomebodyHoldsItAndGoesAfterwards) {
  constexpr PoolId kPool{0, 1};
  route(kPool);
  cache(20 * kMiB, 1);
  end_route(kPool);
  const size_t held = reserved_bytes();
  EXPECT_EQ(trim_to(0), 0U);
  EXPECT_EQ(reserved_bytes(), held);
  must(engine().release_pool(kPool));
  EXPECT_EQ(trim_to(0), held);
  EXPECT_EQ(used_bytes(), 0U);
  EXPECT_FALSE(exists(kPool));
}

TEST_P(EngineTrimContract, MemoryOfPoolsThatNobodyHoldsGoesFirst) {
  constexpr PoolId kPool{0, 1};
  cache(20 * kMiB, 2);
  const size_t wanted = reserved_bytes();
  route(kPool);
  cache(30 * kMiB, 1);
  end_route(kPool);
  must(engine().release_pool(kPool));
  trim_to(wanted);
  EXPECT_EQ(reserved_bytes(), wanted);
  EXPECT_FALSE(exists(kPool));
}

}  // namespace ashlar::contract
