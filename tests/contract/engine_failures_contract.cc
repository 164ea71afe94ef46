// SPDX-License-Identifier: Apache-2.0
//
// Tests failing and lost devices: each failure is reported with its StatusKind, and no memory
// leaks.
#include "engine_contract.h"

namespace ashlar::contract {
namespace {

// A workload that makes an engine allocate, record events, wait and release memory.
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

TEST_P(EngineFailuresContract, SurvivesASingleFailureOfAnyDeviceCall) {
  const StreamId used = create_stream();
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
    expect_trims_to_zero();
    if (HasFailure()) return;
  }
}

TEST_P(EngineFailuresContract, AllocateReportsADeviceFaultAsSuch) {
  Block* kept = allocate(512);
  fill(kept, 5);
  engine().add_oom_observer(
      [](const OomNotice&) { ADD_FAILURE() << "a fault is not out of memory"; });
  machine_->inject({.count = sim::FaultRule::kForever});
  EXPECT_EQ(allocation_error(50 * kMiB).kind(), StatusKind::kDeviceFault);
  machine_->clear_faults();
  EXPECT_EQ(stats().allocation.all.current, 1);
  EXPECT_TRUE(contains(kept, 5));
  allocate(50 * kMiB);
}

TEST_P(EngineFailuresContract, RetriesAFailedFreeWithoutLosingTheBlock) {
  const StreamId used = create_stream();
  Block* block = require_ok(engine().allocate({3 * kMiB, kDefaultStream}));
  record_stream(block, used);
  machine_->inject({.count = sim::FaultRule::kForever});
  (void)engine().free(block).ok();
  machine_->clear_faults();
  EXPECT_EQ(stats().allocation.all.current, 0) << "the caller no longer owns it";
  expect_trims_to_zero();
}

TEST_P(EngineFailuresContract, NextTrimReportsAFailedQuietFree) {
  const StreamId used = busy_stream();
  Block* block = require_ok(engine().allocate({3 * kMiB, kDefaultStream}));
  record_stream(block, used);
  machine_->inject({});  // fails the next device call
  engine().free_quietly(block);
  resume_stream(used);
  EXPECT_EQ(engine().trim().kind(), StatusKind::kDeviceFault);
  EXPECT_TRUE(ok(engine().trim())) << "must be reported only once";
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_P(EngineFailuresContract, ReportsAFailedReleaseAndReusesTheMemory) {
  if (!GetParam().reports_free_errors) GTEST_SKIP() << "the engine does not see free errors";
  free(allocate(5 * kMiB));
  free(allocate(30 * kMiB));
  for (DeviceCall call : {DeviceCall::kFree, DeviceCall::kUnmap, DeviceCall::kTrimPool}) {
    machine_->inject({.call = call, .count = sim::FaultRule::kForever});
  }
  EXPECT_EQ(engine().trim().kind(), StatusKind::kDeviceFault);
  EXPECT_EQ(static_cast<size_t>(stats().reserved_bytes.all.current), used_bytes())
      << "the device still counts this memory";
  machine_->clear_faults();
  expect_trims_to_zero();
}

// --- lost devices

TEST_P(EngineFailuresContract, ReportsALostDevice) {
  const StreamId used = create_stream();
  Block* plain = allocate(512);
  Block* elsewhere = allocate(3 * kMiB);
  Block* kept = allocate(30 * kMiB);
  record_stream(elsewhere, used);
  machine_->lose(kDevice, Status::device_lost("work", 700, "an illegal access"));
  EXPECT_EQ(allocation_error(60 * kMiB).kind(), StatusKind::kDeviceLost);
  (void)engine().record_stream(kept, {&device(), used}).ok();
  const auto is_clear = [](const Status& status) {
    return status.ok() || status.is(StatusKind::kDeviceLost);
  };
  EXPECT_TRUE(is_clear(engine().free(plain)));
  EXPECT_TRUE(is_clear(engine().free(elsewhere)));
  EXPECT_EQ(engine().trim().kind(), StatusKind::kDeviceLost);
  EXPECT_EQ(stats().allocation.all.current, 1);
}

TEST_P(EngineFailuresContract, ReleasesMemoryAfterALostDeviceRecovers) {
  if (stays_lost()) GTEST_SKIP() << kStaysLost;
  const StreamId used = create_stream();
  Block* pending = allocate(3 * kMiB);
  Block* kept = allocate(30 * kMiB);
  record_stream(pending, used);
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

TEST_P(EngineFailuresContract, SurvivesDeviceLossInAnyCall) {
  if (stays_lost()) GTEST_SKIP() << kStaysLost;
  const StreamId used = create_stream();
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
    expect_trims_to_zero();
    if (HasFailure()) return;
  }
}

TEST_P(EngineFailuresContract, DestroysAnEngineOnALostDevice) {
  if (!machine_->has_two_devices()) GTEST_SKIP() << "only one device";
  std::unique_ptr<Engine> lost_engine = GetParam().make(other(), {});
  const StreamId used = require_ok(other().create_stream());
  require_ok(lost_engine->allocate({512, kDefaultStream}));
  Block* block = require_ok(lost_engine->allocate({30 * kMiB, kDefaultStream}));
  require_ok(lost_engine->record_stream(block, {&other(), used}));
  require_ok(lost_engine->free(block));
  machine_->lose(kOther, Status::device_lost("work", 700, "an illegal access"));
  lost_engine.reset();  // the engine cannot release its memory
  allocate(512);        // the other engine still works
}

}  // namespace ashlar::contract
