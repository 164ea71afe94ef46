// SPDX-License-Identifier: Apache-2.0
//
// The end of memory, the device's and our own: said in a typed way, with nothing changed, and
// overcome as soon as something is freed.
#include <cmath>

#include "engine_contract.h"

namespace ashlar::contract {
namespace {

constexpr size_t kBytes = 40 * kMiB;

}  // namespace

TEST_P(EngineLimitsContract, AFullDeviceIsOutOfMemoryAndEveryBlockIsAsItWas) {
  const std::vector<Block*> blocks = fill_up(kBytes);
  EXPECT_GE(blocks.size(), 5U) << "hardly any of the device's memory was handed out";
  for (size_t i = 0; i < blocks.size(); ++i) fill(blocks[i], static_cast<uint8_t>(i));
  const AllocatorStats before = stats();
  EXPECT_EQ(refused(kBytes).kind(), StatusKind::kOutOfMemory);
  EXPECT_EQ(refused(kCapacityBytes / 2, new_stream()).kind(), StatusKind::kOutOfMemory);
  const AllocatorStats after = stats();
  EXPECT_EQ(after.ooms, before.ooms + 2);
  EXPECT_EQ(after.allocation.all.current, before.allocation.all.current);
  EXPECT_EQ(after.allocated_bytes.all.current, before.allocated_bytes.all.current);
  EXPECT_EQ(after.active_bytes.all.current, before.active_bytes.all.current);
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_TRUE(holds(blocks[i], static_cast<uint8_t>(i)));
  }
}

TEST_P(EngineLimitsContract, WhatIsFreedLiftsAnOutOfMemory) {
  const std::vector<Block*> blocks = fill_up(kBytes);
  free(blocks[0]);
  allocate(kBytes);
  EXPECT_EQ(refused(kBytes).kind(), StatusKind::kOutOfMemory);
  free(blocks[2]);
  free(blocks[3]);
  allocate(kBytes, new_stream());  // the cache of one stream must not starve another
  expect_empties();
}

TEST_P(EngineLimitsContract, PendingFreesAreWaitedForBeforeMemoryRunsOut) {
  const StreamId used = busy_stream();
  const std::vector<Block*> blocks = fill_up(kBytes);
  for (Block* block : blocks) use_on(block, used);
  for (Block* block : blocks) free(block);
  must(machine_->resume(kDevice, used));
  allocate(kBytes);
}

TEST_P(EngineLimitsContract, ObserversHearOfItUnlockedAndMayCallTheEngine) {
  const StreamId stream = new_stream();
  const std::vector<Block*> blocks = fill_up(kBytes);
  std::vector<OomNotice> notices;
  engine().add_oom_observer([&](const OomNotice& notice) {
    notices.push_back(notice);
    (void)stats();
    if (notices.size() > 1) return;
    free(blocks[0]);
    free(allocate(512, stream));
  });
  engine().add_oom_observer([&](const OomNotice& notice) { notices.push_back(notice); });
  EXPECT_EQ(refused(kBytes, stream).kind(), StatusKind::kOutOfMemory)
      << "an observer hears of it; it does not help";
  ASSERT_EQ(notices.size(), 2U);
  EXPECT_EQ(notices[0].device, kDevice);
  EXPECT_GE(notices[0].wanted_bytes, kBytes);
  EXPECT_EQ(notices[0].limit_bytes, kCapacityBytes);
  EXPECT_LT(notices[0].device_free_bytes, kCapacityBytes / 2);
  allocate(kBytes, stream);
  EXPECT_EQ(notices.size(), 2U) << "an allocation that succeeds is no news";
}

TEST_P(EngineLimitsContract, FreeMemoryCallbacksAreAskedAndMayFreeWhatTheyHold) {
  std::vector<Block*> blocks = fill_up(kBytes);
  int ask_count = 0;
  engine().add_free_memory_callback([&] {
    ++ask_count;
    if (blocks.empty()) return false;
    free(blocks.back());
    blocks.pop_back();
    return true;
  });
  bool asked_too = false;
  engine().add_free_memory_callback([&] { return asked_too = true, false; });
  allocate(kBytes);
  EXPECT_EQ(ask_count, 1);
  EXPECT_TRUE(asked_too) << "every callback is asked";
  EXPECT_EQ(stats().ooms, 1) << "the one that filled the device";
}

TEST_P(EngineLimitsContract, CallbacksAreNotAskedWhileTheCacheServes) {
  free(allocate(kBytes));
  engine().add_free_memory_callback([] {
    ADD_FAILURE() << "asked for nothing";
    return false;
  });
  free(allocate(kBytes));
}

// --- the limit of our own -----------------------------------------------------------------------

TEST_P(EngineLimitsContract, NoMoreThanTheFractionIsEverTaken) {
  must(engine().set_memory_fraction(0.5));
  EXPECT_EQ(engine().memory_fraction(), 0.5);
  std::vector<OomNotice> notices;
  engine().add_oom_observer([&](const OomNotice& notice) { notices.push_back(notice); });
  for (size_t bytes : {size_t{700}, 3 * kMiB, 24 * kMiB}) {
    for (StreamId stream : {kDefaultStream, new_stream()}) {
      for (int i = 0; i < 12; ++i) {
        const Result<Block*> block = engine().allocate({bytes, stream});
        EXPECT_LE(used_bytes(), kCapacityBytes / 2);
        const bool clear = block.ok() || block.status().is_out_of_memory();
        EXPECT_TRUE(clear) << block.status().to_string();
      }
    }
  }
  EXPECT_EQ(refused(kCapacityBytes / 2 + 1).kind(), StatusKind::kOutOfMemory);
  ASSERT_FALSE(notices.empty());
  EXPECT_EQ(notices.back().limit_bytes, kCapacityBytes / 2);
  EXPECT_GT(notices.back().wanted_bytes, kCapacityBytes / 2);
}

TEST_P(EngineLimitsContract, TheLimitCanBeGivenAsAnOptionAndLifted) {
  AllocatorOptions options;
  options.memory_fraction = 0.25;
  restart_with(options);
  EXPECT_EQ(engine().memory_fraction(), 0.25);
  EXPECT_EQ(refused(kCapacityBytes / 2).kind(), StatusKind::kOutOfMemory);
  must(engine().set_memory_fraction(1));
  allocate(kCapacityBytes / 2);
}

TEST_P(EngineLimitsContract, UnderTheLimitCachedMemoryMakesRoom) {
  must(engine().set_memory_fraction(0.5));
  free(allocate(100 * kMiB, new_stream()));
  allocate(100 * kMiB);
  EXPECT_LE(used_bytes(), kCapacityBytes / 2);
}

TEST_P(EngineLimitsContract, AFractionThatMakesNoSenseIsAMistakeAndTheOldOneStays) {
  must(engine().set_memory_fraction(0.75));
  for (double fraction : {-0.001, 1.001, -1e300, double(INFINITY), double(NAN)}) {
    EXPECT_EQ(engine().set_memory_fraction(fraction).kind(), StatusKind::kInvalidArgument)
        << fraction;
    EXPECT_EQ(engine().memory_fraction(), 0.75);
  }
}

TEST_P(EngineLimitsContract, ARejectionIsToldToItsOwnObserversAndCostsNothing) {
  AllocatorOptions options;
  options.memory_fraction = 0.5;
  options.reject_before_device_oom = true;
  restart_with(options);
  std::vector<OomNotice> rejections;
  engine().add_rejection_observer([&](const OomNotice& notice) {
    rejections.push_back(notice);
    (void)stats();
  });
  engine().add_oom_observer([](const OomNotice&) { ADD_FAILURE() << "it is no out of memory"; });
  free(allocate(60 * kMiB));
  const size_t used = used_bytes();
  EXPECT_EQ(refused(kCapacityBytes / 2 + 1).kind(), StatusKind::kOutOfMemory);
  ASSERT_EQ(rejections.size(), 1U);
  EXPECT_EQ(rejections[0].limit_bytes, kCapacityBytes / 2);
  EXPECT_EQ(used_bytes(), used) << "the cache was given up for a request that was refused anyway";
  EXPECT_EQ(stats().oom_rejections, 1);
  EXPECT_EQ(stats().ooms, 0);
  allocate(60 * kMiB);
}

}  // namespace ashlar::contract
