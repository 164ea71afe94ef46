// SPDX-License-Identifier: Apache-2.0
//
// Tests out of memory and memory limits: the error, its lack of side effects, and recovery after a
// free.
#include <cmath>

#include "engine_contract.h"

namespace ashlar::contract {
namespace {

constexpr size_t kBytes = 40 * kMiB;

}  // namespace

TEST_P(EngineLimitsContract, OutOfMemoryLeavesEveryBlockIntact) {
  const std::vector<Block*> blocks = allocate_until_full(kBytes);
  EXPECT_GE(blocks.size(), 5U) << "the test allocated too little memory";
  for (size_t i = 0; i < blocks.size(); ++i) fill(blocks[i], static_cast<uint8_t>(i));
  const AllocatorStats before = stats();
  EXPECT_EQ(allocation_error(kBytes).kind(), StatusKind::kOutOfMemory);
  EXPECT_EQ(allocation_error(kCapacityBytes / 2, create_stream()).kind(), StatusKind::kOutOfMemory);
  const AllocatorStats after = stats();
  EXPECT_EQ(after.ooms, before.ooms + 2);
  EXPECT_EQ(after.allocation.all.current, before.allocation.all.current);
  EXPECT_EQ(after.allocated_bytes.all.current, before.allocated_bytes.all.current);
  EXPECT_EQ(after.active_bytes.all.current, before.active_bytes.all.current);
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_TRUE(contains(blocks[i], static_cast<uint8_t>(i)));
  }
}

TEST_P(EngineLimitsContract, AllocatesAgainAfterAFree) {
  const std::vector<Block*> blocks = allocate_until_full(kBytes);
  free(blocks[0]);
  allocate(kBytes);
  EXPECT_EQ(allocation_error(kBytes).kind(), StatusKind::kOutOfMemory);
  free(blocks[2]);
  free(blocks[3]);
  // Memory that is cached for one stream must not make another stream run out of memory.
  allocate(kBytes, create_stream());
  expect_trims_to_zero();
}

TEST_P(EngineLimitsContract, WaitsForPendingFreesBeforeOutOfMemory) {
  const StreamId used = busy_stream();
  const std::vector<Block*> blocks = allocate_until_full(kBytes);
  for (Block* block : blocks) record_stream(block, used);
  for (Block* block : blocks) free(block);
  require_ok(machine_->resume_stream(kDevice, used));
  allocate(kBytes);
}

TEST_P(EngineLimitsContract, OutOfMemoryObserversMayCallTheEngine) {
  const StreamId stream = create_stream();
  const std::vector<Block*> blocks = allocate_until_full(kBytes);
  std::vector<OomNotice> notices;
  engine().add_oom_observer([&](const OomNotice& notice) {
    notices.push_back(notice);
    (void)stats();
    if (notices.size() > 1) return;
    free(blocks[0]);
    free(allocate(512, stream));
  });
  engine().add_oom_observer([&](const OomNotice& notice) { notices.push_back(notice); });
  EXPECT_EQ(allocation_error(kBytes, stream).kind(), StatusKind::kOutOfMemory)
      << "observers are notified but free nothing";
  ASSERT_EQ(notices.size(), 2U);
  EXPECT_EQ(notices[0].device, kDevice);
  EXPECT_GE(notices[0].wanted_bytes, kBytes);
  EXPECT_EQ(notices[0].limit_bytes, kCapacityBytes);
  EXPECT_LT(notices[0].device_free_bytes, kCapacityBytes / 2);
  allocate(kBytes, stream);
  EXPECT_EQ(notices.size(), 2U) << "successful allocations must not notify";
}

TEST_P(EngineLimitsContract, FreeMemoryCallbacksMayFreeBlocks) {
  std::vector<Block*> blocks = allocate_until_full(kBytes);
  int ask_count = 0;
  engine().add_free_memory_callback([&] {
    ++ask_count;
    if (blocks.empty()) return false;
    free(blocks.back());
    blocks.pop_back();
    return true;
  });
  bool second_was_called = false;
  engine().add_free_memory_callback([&] { return second_was_called = true, false; });
  allocate(kBytes);
  EXPECT_EQ(ask_count, 1);
  EXPECT_TRUE(second_was_called) << "every callback must be called";
  EXPECT_EQ(stats().ooms, 1) << "the one that filled the device";
}

TEST_P(EngineLimitsContract, DoesNotCallFreeMemoryCallbacksOnACacheHit) {
  free(allocate(kBytes));
  engine().add_free_memory_callback([] {
    ADD_FAILURE() << "a cache hit called the callback";
    return false;
  });
  free(allocate(kBytes));
}

// --- memory fraction

TEST_P(EngineLimitsContract, NeverReservesMoreThanTheMemoryFraction) {
  require_ok(engine().set_memory_fraction(0.5));
  EXPECT_EQ(engine().memory_fraction(), 0.5);
  std::vector<OomNotice> notices;
  engine().add_oom_observer([&](const OomNotice& notice) { notices.push_back(notice); });
  for (size_t bytes : {size_t{700}, 3 * kMiB, 24 * kMiB}) {
    for (StreamId stream : {kDefaultStream, create_stream()}) {
      for (int i = 0; i < 12; ++i) {
        const Result<Block*> block = engine().allocate({bytes, stream});
        EXPECT_LE(used_bytes(), kCapacityBytes / 2);
        const bool clear = block.ok() || block.status().is_out_of_memory();
        EXPECT_TRUE(clear) << block.status().to_string();
      }
    }
  }
  EXPECT_EQ(allocation_error(kCapacityBytes / 2 + 1).kind(), StatusKind::kOutOfMemory);
  ASSERT_FALSE(notices.empty());
  EXPECT_EQ(notices.back().limit_bytes, kCapacityBytes / 2);
  EXPECT_GT(notices.back().wanted_bytes, kCapacityBytes / 2);
}

TEST_P(EngineLimitsContract, AcceptsTheLimitAsAnOptionAndLiftsIt) {
  AllocatorOptions options;
  options.memory_fraction = 0.25;
  restart_with(options);
  EXPECT_EQ(engine().memory_fraction(), 0.25);
  EXPECT_EQ(allocation_error(kCapacityBytes / 2).kind(), StatusKind::kOutOfMemory);
  require_ok(engine().set_memory_fraction(1));
  allocate(kCapacityBytes / 2);
}

TEST_P(EngineLimitsContract, ReleasesCachedMemoryToStayBelowTheLimit) {
  require_ok(engine().set_memory_fraction(0.5));
  free(allocate(100 * kMiB, create_stream()));
  allocate(100 * kMiB);
  EXPECT_LE(used_bytes(), kCapacityBytes / 2);
}

TEST_P(EngineLimitsContract, RejectsAnInvalidMemoryFraction) {
  require_ok(engine().set_memory_fraction(0.75));
  for (double fraction : {-0.001, 1.001, -1e300, double(INFINITY), double(NAN)}) {
    EXPECT_EQ(engine().set_memory_fraction(fraction).kind(), StatusKind::kInvalidArgument)
        << fraction;
    EXPECT_EQ(engine().memory_fraction(), 0.75);
  }
}

TEST_P(EngineLimitsContract, RejectionNotifiesOnlyItsOwnObservers) {
  AllocatorOptions options;
  options.memory_fraction = 0.5;
  options.reject_before_device_oom = true;
  restart_with(options);
  std::vector<OomNotice> rejections;
  engine().add_rejection_observer([&](const OomNotice& notice) {
    rejections.push_back(notice);
    (void)stats();
  });
  engine().add_oom_observer(
      [](const OomNotice&) { ADD_FAILURE() << "not an out-of-memory error"; });
  free(allocate(60 * kMiB));
  const size_t used = used_bytes();
  EXPECT_EQ(allocation_error(kCapacityBytes / 2 + 1).kind(), StatusKind::kOutOfMemory);
  ASSERT_EQ(rejections.size(), 1U);
  EXPECT_EQ(rejections[0].limit_bytes, kCapacityBytes / 2);
  EXPECT_EQ(used_bytes(), used) << "the cache was released for a rejected request";
  EXPECT_EQ(stats().oom_rejections, 1);
  EXPECT_EQ(stats().ooms, 0);
  allocate(60 * kMiB);
}

}  // namespace ashlar::contract
