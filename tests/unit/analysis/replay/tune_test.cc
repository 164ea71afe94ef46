// SPDX-License-Identifier: Apache-2.0
//
// Tests the replays of candidate settings, and the choice of the best setting.
#include "analysis/replay/tune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "analysis/replay/replay.h"
#include "base/units.h"
#include "unit/analysis/trace_builder.h"

namespace ashlar {
namespace {

Trial make_trial(std::string conf, size_t peak_bytes, double driver_us, size_t oom_count = 0) {
  Trial trial;
  trial.setting.options.engine = EngineKind::kClassic;
  trial.setting.conf = std::move(conf);
  trial.peak_reserved_bytes = peak_bytes;
  trial.driver_us = driver_us;
  trial.oom_count = oom_count;
  return trial;
}

Trial make_paged_trial(std::string conf, size_t peak_bytes, size_t oom_count = 0) {
  Trial trial = make_trial(std::move(conf), peak_bytes, 1, oom_count);
  trial.setting.options.engine = EngineKind::kPaged;
  return trial;
}

std::optional<size_t> best_for_pytorch(const std::vector<Trial>& trials) {
  return best_trial(trials, RecordedAllocator::kPytorch);
}

TEST(BestTrial, ExcludesSettingsThatRunOutOfMemory) {
  EXPECT_EQ(best_for_pytorch({make_trial("a", 10, 1, 1), make_trial("b", 20, 2)}), 1U);
  EXPECT_EQ(best_for_pytorch({make_trial("a", 10, 1, 1)}), std::nullopt);
  EXPECT_EQ(best_for_pytorch({}), std::nullopt);
}

TEST(BestTrial, RanksByReservedThenDriverTimeThenTextLength) {
  EXPECT_EQ(best_for_pytorch({make_trial("a", 20, 1), make_trial("bbbb", 10, 9)}), 1U);
  EXPECT_EQ(best_for_pytorch({make_trial("a", 10, 9), make_trial("bbbb", 10, 1)}), 1U);
  EXPECT_EQ(best_for_pytorch({make_trial("aaaa", 10, 1), make_trial("b", 10, 1)}), 1U);
  EXPECT_EQ(best_for_pytorch({make_trial("a", 10, 1), make_trial("b", 10, 1)}), 0U);
}

TEST(BestTrial, PrefersTheSimplerSettingWithin1Percent) {
  EXPECT_EQ(best_for_pytorch({make_trial("a:1,b:2", 1000, 1), make_trial("c:1", 1009, 9)}), 1U);
  EXPECT_EQ(best_for_pytorch({make_trial("a:1,b:2", 1000, 1), make_trial("c:1", 1011, 1)}), 0U);
  // Commas within a list do not separate options.
  EXPECT_EQ(
      best_for_pytorch({make_trial("a:1,b:2", 1000, 1), make_trial("c:[1:2,3:4,5:6]", 1009, 1)}),
      1U);
}

TEST(BestTrial, KeepsTheRecordedSettingIfOthersSaveLessThan1Percent) {
  Trial recorded = make_trial("a:1,b:2,c:3", 1010, 5);
  recorded.setting.is_recorded = true;
  EXPECT_EQ(best_for_pytorch({recorded, make_trial("", 1000, 1)}), 0U);
  recorded.peak_reserved_bytes = 1011;
  EXPECT_EQ(best_for_pytorch({recorded, make_trial("", 1000, 1)}), 1U);
  recorded.oom_count = 1;
  EXPECT_EQ(best_for_pytorch({recorded, make_trial("", 1011, 1)}), 1U);
}

TEST(BestTrial, OffersOtherEnginesOnlyToAshlar) {
  const std::vector<Trial> trials = {make_trial("a", 20, 1), make_paged_trial("", 10)};
  EXPECT_EQ(best_trial(trials, RecordedAllocator::kPytorch), 0U);
  EXPECT_EQ(best_trial(trials, RecordedAllocator::kAshlar), 1U);
  EXPECT_EQ(best_trial({make_paged_trial("", 10)}, RecordedAllocator::kPytorch), std::nullopt);
}

TEST(BestTrial, PrefersTheDefaultPagedPolicyIfItCompletes) {
  EXPECT_EQ(best_paged_trial(
                {make_trial("", 5, 1), make_paged_trial("lean", 10), make_paged_trial("", 12)}),
            2U);
  EXPECT_EQ(best_paged_trial({make_paged_trial("", 12, 1), make_paged_trial("fast", 11),
                              make_paged_trial("lean", 10)}),
            2U);
  EXPECT_EQ(best_paged_trial({make_trial("", 5, 1), make_paged_trial("", 12, 1)}), std::nullopt);
}

// Twelve requests that each leave a hole too small for the next request. With plain segments, each
// request needs a segment; one expandable segment serves all requests.
class TuneTest : public testing::Test {
 protected:
  TuneTest() {
    uint64_t at = kBase;
    for (size_t i = 0; i < 12; ++i) {
      const size_t bytes = (12 + 4 * i) * kMiB;
      trace_.add(TraceAction::kSegmentAlloc, at, bytes).alloc(at, bytes);
      trace_.free(at, bytes);
      at += bytes;
    }
    options_.recorded.engine = EngineKind::kClassic;
    options_.recorded.pytorch_compatible = true;
    options_.capacity_bytes = 8 * kGiB;
  }

  TuneResult run_tune() {
    const Allocations allocations = find_allocations(trace_.snapshot(), kTraceDevice);
    Result<TuneResult> result = tune(trace_.snapshot(), allocations, options_);
    EXPECT_TRUE(result.ok()) << result.status().to_string();
    return *std::move(result);
  }

  static const Trial& trial_with(const TuneResult& result, const std::string& text) {
    for (const Trial& trial : result.trials) {
      if (format_setting(trial.setting, result.allocator_kind) == text) return trial;
    }
    ADD_FAILURE() << "no setting " << text;
    return result.trials.front();
  }

  TraceBuilder trace_;
  TuneOptions options_;
};

TEST_F(TuneTest, PrefersExpandableSegmentsIfPlainOnesFragment) {
  const TuneResult result = run_tune();
  EXPECT_EQ(trial_with(result, "").peak_reserved_bytes, 408 * kMiB);  // 12 + 16 + … + 56
  EXPECT_EQ(trial_with(result, "expandable_segments:True").peak_reserved_bytes, 60 * kMiB);
  EXPECT_EQ(result.lower_bound_bytes, 56 * kMiB);
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.trials[*result.best].setting.conf, "expandable_segments:True");
}

TEST_F(TuneTest, ReportsThePagedEngineSeparatelyForPyTorch) {
  const TuneResult result = run_tune();
  EXPECT_EQ(trial_with(result, "engine:paged").peak_reserved_bytes, 56 * kMiB)
      << "nothing is wasted";
  ASSERT_TRUE(result.paged);
  EXPECT_EQ(format_setting(result.trials[*result.paged].setting, result.allocator_kind),
            "engine:paged");
  EXPECT_EQ(result.trials[*result.best].setting.options.engine, EngineKind::kClassic);
}

TEST_F(TuneTest, ConsidersAllEnginesForAPagedRun) {
  options_.recorded = {};
  options_.recorded.engine = EngineKind::kPaged;
  const TuneResult result = run_tune();
  EXPECT_EQ(result.allocator_kind, RecordedAllocator::kAshlar);
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.trials[*result.best].setting.options.engine, EngineKind::kPaged);
}

TEST_F(TuneTest, HasNoBestIfNoneCompletes) {
  options_.capacity_bytes = 40 * kMiB;
  const TuneResult result = run_tune();
  EXPECT_FALSE(result.best);
  EXPECT_FALSE(result.paged);
  for (const Trial& trial : result.trials) EXPECT_GT(trial.oom_count, 0U) << trial.setting.conf;
}

// When the device is full the cache is flushed, so memory for one plain segment at a time is
// enough.
TEST_F(TuneTest, FindsASufficientCapacityToWithinOneStep) {
  options_.find_min_capacity = true;
  const TuneResult result = run_tune();
  EXPECT_EQ(trial_with(result, "").min_capacity_bytes, 56 * kMiB);
  EXPECT_EQ(trial_with(result, "expandable_segments:True").min_capacity_bytes, 60 * kMiB);
  const Allocations allocations = find_allocations(trace_.snapshot(), kTraceDevice);
  for (const Trial& trial : result.trials) {
    ASSERT_TRUE(trial.min_capacity_bytes) << trial.setting.conf;
    ReplayOptions replaying;
    replaying.allocator = trial.setting.options;
    replaying.recorded = options_.recorded;
    replaying.capacity_bytes = *trial.min_capacity_bytes;
    EXPECT_TRUE(replay(trace_.snapshot(), allocations, replaying)->ooms.empty());
    replaying.capacity_bytes -= capacity_step_bytes(trial.peak_reserved_bytes);
    EXPECT_FALSE(replay(trace_.snapshot(), allocations, replaying)->ooms.empty());
  }
}

TEST_F(TuneTest, FindsMinCapacityWhenDeviceIsTooSmall) {
  options_.find_min_capacity = true;
  options_.capacity_bytes = 40 * kMiB;
  const TuneResult result = run_tune();
  EXPECT_GT(trial_with(result, "").oom_count, 0U);
  EXPECT_EQ(trial_with(result, "").min_capacity_bytes, 56 * kMiB);
}

TEST_F(TuneTest, StopsSearchThatMakesTooManyDriverCalls) {
  options_.find_min_capacity = true;
  // Two streams alternate, so that each request flushes the cache if only one request fits.
  TraceBuilder flushing;
  for (int round = 0; round < 20; ++round) {
    for (const uint64_t stream : {0, 1}) {
      flushing.alloc(kBase, kGiB, stream).free(kBase, kGiB, stream);
    }
  }
  trace_ = flushing;
  options_.capacity_bytes = 8 * kGiB;
  options_.max_search_driver_calls = 3000;
  const TuneResult result = run_tune();
  const Trial& expandable = trial_with(result, "expandable_segments:True");
  EXPECT_TRUE(expandable.is_min_capacity_bound);
  EXPECT_GT(expandable.min_capacity_bytes, kGiB);
  EXPECT_LT(expandable.min_capacity_bytes, 8 * kGiB);
  // A plain segment takes few calls.
  EXPECT_FALSE(trial_with(result, "").is_min_capacity_bound);
  EXPECT_EQ(trial_with(result, "").min_capacity_bytes, kGiB);
}

TEST_F(TuneTest, CountsPreexistingAllocationsForTheMinimum) {
  TraceBuilder truncated;
  truncated.ends_with(kBase, 20 * kMiB, SnapshotBlockState::kAllocated);
  truncated.ends_with(kBase + 20 * kMiB, 20 * kMiB, SnapshotBlockState::kAllocated);
  truncated.add(TraceAction::kSnapshot, 0, 0);
  trace_ = truncated;
  options_.find_min_capacity = true;
  options_.capacity_bytes = 30 * kMiB;
  const TuneResult result = run_tune();
  for (const char* conf : {"", "max_split_size_mb:64"}) {
    EXPECT_EQ(trial_with(result, conf).oom_count, 1U) << conf;
    EXPECT_EQ(trial_with(result, conf).min_capacity_bytes, 40 * kMiB) << conf;
  }
}

TEST_F(TuneTest, FindsNoCapacityIfTheCapIsTooSmall) {
  options_.find_min_capacity = true;
  options_.cap_bytes = 40 * kMiB;
  const TuneResult result = run_tune();
  for (const char* conf : {"", "expandable_segments:True", "max_split_size_mb:64"}) {
    EXPECT_GT(trial_with(result, conf).oom_count, 0U) << conf;
    EXPECT_FALSE(trial_with(result, conf).min_capacity_bytes) << conf;
  }
}

TEST(CapacityStep, GrowsWithTheRunUpTo64MiB) {
  EXPECT_EQ(capacity_step_bytes(0), 2 * kMiB);
  EXPECT_EQ(capacity_step_bytes(kGiB), 4 * kMiB);
  EXPECT_EQ(capacity_step_bytes(140 * kGiB), 64 * kMiB);
}

TEST_F(TuneTest, RejectsADeviceThatTheSnapshotLacks) {
  options_.device = DeviceIndex(7);
  const Result<TuneResult> result = tune(trace_.snapshot(), {}, options_);
  EXPECT_TRUE(result.status().is(StatusKind::kInvalidArgument)) << result.status().to_string();
}

class TuneConcurrency : public TuneTest {};

TEST_F(TuneConcurrency, ResultIsIndependentOfTheWorkerCount) {
  options_.find_min_capacity = true;
  options_.worker_count = 1;
  const TuneResult alone = run_tune();
  options_.worker_count = 4;
  const TuneResult together = run_tune();
  ASSERT_EQ(alone.trials.size(), together.trials.size());
  for (size_t i = 0; i < alone.trials.size(); ++i) {
    const Trial& a = alone.trials[i];
    const Trial& b = together.trials[i];
    EXPECT_EQ(a.setting.conf, b.setting.conf);
    EXPECT_EQ(a.peak_reserved_bytes, b.peak_reserved_bytes) << a.setting.conf;
    EXPECT_EQ(a.driver_us, b.driver_us) << a.setting.conf;
    EXPECT_EQ(a.min_capacity_bytes, b.min_capacity_bytes) << a.setting.conf;
  }
  EXPECT_EQ(alone.best, together.best);
}

TEST_F(TuneConcurrency, ReportsProgressOnTheCallingThread) {
  const std::thread::id caller = std::this_thread::get_id();
  double last = -1;
  options_.worker_count = 4;
  options_.progress = [&](double fraction) {
    last = fraction;
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_GE(fraction, 0);
    EXPECT_LE(fraction, 1);
  };
  run_tune();
  EXPECT_EQ(last, 1);
}

}  // namespace
}  // namespace ashlar
