// SPDX-License-Identifier: Apache-2.0
//
// A device that fails, once or for good: every failure is told by its kind, and no memory is lost.
#include "engine_contract.h"

namespace ashlar::contract {
namespace {

// Enough to make an engine ask for memory, record events, wait, and give memory back.
struct Workload {
  Engine& engine;
  DeviceStream used;
  std::vector<Block*> live;
  std::vector<Status> outcomes;

  void allocate(size_t bytes) {
    const Result<Block*> block = engine.allocate({bytes, kDefaultStream});
    outcomes.push_back(block.status());
    if (block.ok()) live.push_back(*block);
  }
  void use_and_free_first() {
    if (live.empty()) return;
    outcomes.push_back(engine.record_stream(live.front(), used));
    outcomes.push_back(engine.free(live.front()));
    live.erase(live.begin());
  }
  void run() {
    for (int round = 0; round < 2; ++round) {
      for (size_t bytes : {size_t{512}, 3 * kMiB, 30 * kMiB}) allocate(bytes);
      use_and_free_first();
      use_and_free_first();
      outcomes.push_back(engine.trim_to({4 * kMiB}).status());
      outcomes.push_back(engine.trim());
    }
  }
  void free_all() {
    for (Block* block : std::exchange(live, {})) outcomes.push_back(engine.free(block));
  }
};

constexpr char kStaysLost[] = "a device that its driver lost stays lost";

}  // namespace

TEST_P(EngineFailuresContract, AnyCallOfTheDeviceMayFailOnceAndNothingIsLost) {
  const StreamId used = new_stream();
  for (uint64_t nth = 1; nth <= 60; ++nth) {
    SCOPED_TRACE(nth);
    machine_->inject({.nth = nth});
    Workload workload{engine(), {&device(), used}, {}, {}};
    workload.run();
    workload.free_all();
    machine_->clear_faults();
    for (const Status& status : workload.outcomes) {
      const bool clear = status.ok() || status.is(StatusKind::kDeviceFault);
      EXPECT_TRUE(clear) << status.to_string();
    }
    expect_empties();
    if (HasFailure()) return;
  }
}

TEST_P(EngineFailuresContract, AFaultWhileAllocatingIsToldAtOnceAndIsNoOutOfMemory) {
  Block* kept = allocate(512);
  fill(kept, 5);
  engine().add_oom_observer([](const OomNotice&) { ADD_FAILURE() << "a fault is no lack"; });
  machine_->inject({.count = sim::FaultRule::kForever});
  EXPECT_EQ(refused(50 * kMiB).kind(), StatusKind::kDeviceFault);
  machine_->clear_faults();
  EXPECT_EQ(stats().allocation.all.current, 1);
  EXPECT_TRUE(holds(kept, 5));
  allocate(50 * kMiB);
}

TEST_P(EngineFailuresContract, AFreeThatFailsIsTriedAgainAndTheBlockIsNotLost) {
  const StreamId used = new_stream();
  Block* block = must(engine().allocate({3 * kMiB, kDefaultStream}));
  use_on(block, used);
  machine_->inject({.count = sim::FaultRule::kForever});
  (void)engine().free(block).ok();
  machine_->clear_faults();
  EXPECT_EQ(stats().allocation.all.current, 0) << "it is the caller's no more";
  expect_empties();
}

TEST_P(EngineFailuresContract, AFailureOfAQuietFreeIsToldByTheNextTrim) {
  const StreamId used = busy_stream();
  Block* block = must(engine().allocate({3 * kMiB, kDefaultStream}));
  use_on(block, used);
  machine_->inject({});  // whoever calls the device next
  engine().free_quietly(block);
  let_go_on(used);
  EXPECT_EQ(engine().trim().kind(), StatusKind::kDeviceFault);
  EXPECT_TRUE(ok(engine().trim())) << "told once";
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_P(EngineFailuresContract, AMemoryThatIsNotTakenBackIsToldAndOfferedAgain) {
  if (!GetParam().frees_itself) GTEST_SKIP() << "the device tells somebody else";
  free(allocate(5 * kMiB));
  free(allocate(30 * kMiB));
  for (DeviceCall call : {DeviceCall::kFree, DeviceCall::kUnmap, DeviceCall::kTrimPool}) {
    machine_->inject({.call = call, .count = sim::FaultRule::kForever});
  }
  EXPECT_EQ(engine().trim().kind(), StatusKind::kDeviceFault);
  EXPECT_EQ(static_cast<size_t>(stats().reserved_bytes.all.current), used_bytes())
      << "what the device still counts, so do we";
  machine_->clear_faults();
  expect_empties();
}

// --- devices that are lost ----------------------------------------------------------------------

TEST_P(EngineFailuresContract, ALostDeviceIsToldAsSuch) {
  const StreamId used = new_stream();
  Block* plain = allocate(512);
  Block* elsewhere = allocate(3 * kMiB);
  Block* kept = allocate(30 * kMiB);
  use_on(elsewhere, used);
  machine_->lose(kDevice, Status::device_lost("work", 700, "an illegal access"));
  EXPECT_EQ(refused(60 * kMiB).kind(), StatusKind::kDeviceLost);
  (void)engine().record_stream(kept, {&device(), used}).ok();
  const auto is_clear = [](const Status& status) {
    return status.ok() || status.is(StatusKind::kDeviceLost);
  };
  EXPECT_TRUE(is_clear(engine().free(plain)));
  EXPECT_TRUE(is_clear(engine().free(elsewhere)));
  EXPECT_EQ(engine().trim().kind(), StatusKind::kDeviceLost);
  EXPECT_EQ(stats().allocation.all.current, 1);
}

TEST_P(EngineFailuresContract, WhatALostDeviceHadGoesBackWhenItIsWell) {
  if (stays_lost()) GTEST_SKIP() << kStaysLost;
  const StreamId used = new_stream();
  Block* pending = allocate(3 * kMiB);
  Block* kept = allocate(30 * kMiB);
  use_on(pending, used);
  free(pending);
  machine_->lose(kDevice, Status::device_lost("work", 700, "an illegal access"));
  (void)engine().trim().ok();
  engine().free_quietly(kept);
  (void)engine().allocate({3 * kMiB, used}).ok();
  machine_->revive(kDevice);
  (void)engine().trim().ok();
  EXPECT_TRUE(ok(engine().trim()));
  EXPECT_EQ(used_bytes(), 0U);
  EXPECT_EQ(active_count(), 0);
}

TEST_P(EngineFailuresContract, AnyCallMayBeTheOneThatLosesTheDevice) {
  if (stays_lost()) GTEST_SKIP() << kStaysLost;
  const StreamId used = new_stream();
  for (uint64_t nth = 1; nth <= 60; ++nth) {
    SCOPED_TRACE(nth);
    machine_->inject({.nth = nth, .action = sim::FaultAction::kLoseDevice});
    Workload workload{engine(), {&device(), used}, {}, {}};
    workload.run();
    workload.free_all();
    machine_->clear_faults();
    machine_->revive(kDevice);
    for (const Status& status : workload.outcomes) {
      const bool clear = status.ok() || status.is(StatusKind::kDeviceLost);
      EXPECT_TRUE(clear) << status.to_string();
    }
    expect_empties();
    if (HasFailure()) return;
  }
}

TEST_P(EngineFailuresContract, AnEngineMayEndOnALostDevice) {
  if (!machine_->has_two_devices()) GTEST_SKIP() << "there is one device";
  std::unique_ptr<Engine> doomed = GetParam().make(other(), {});
  const StreamId used = must(other().create_stream());
  must(doomed->allocate({512, kDefaultStream}));
  Block* block = must(doomed->allocate({30 * kMiB, kDefaultStream}));
  must(doomed->record_stream(block, {&other(), used}));
  must(doomed->free(block));
  machine_->lose(kOther, Status::device_lost("work", 700, "an illegal access"));
  doomed.reset();  // it cannot give anything back, and does not mind
  allocate(512);   // the other engine neither
}

}  // namespace ashlar::contract
