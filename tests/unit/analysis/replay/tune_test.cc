// SPDX-License-Identifier: Apache-2.0
//
// Tests candidate settings, their replays, and the choice of the best setting.
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

using ::testing::Contains;
using ::testing::Each;
using ::testing::Not;

AllocatorOptions pytorch_defaults() {
  AllocatorOptions options;
  options.engine = EngineKind::kClassic;
  options.pytorch_compatible = true;
  return options;
}

AllocatorOptions paged_defaults() {
  AllocatorOptions options;
  options.engine = EngineKind::kPaged;
  return options;
}

std::vector<std::string> confs(const std::vector<Setting>& settings) {
  std::vector<std::string> all;
  all.reserve(settings.size());
  for (const Setting& setting : settings) all.push_back(setting.conf);
  return all;
}

TEST(SettingsTest, ListsTheRecordedSettingFirstAndOnce) {
  AllocatorOptions recorded = pytorch_defaults();
  recorded.expandable_segments = true;
  const std::vector<Setting> settings = candidate_settings({.recorded = recorded});
  EXPECT_EQ(settings[0].conf, "expandable_segments:True");
  EXPECT_TRUE(settings[0].is_recorded);
  EXPECT_EQ(settings[1].conf, "");
  const std::vector<std::string> all = confs(settings);
  EXPECT_EQ(std::count(all.begin(), all.end(), "expandable_segments:True"), 1);
  for (size_t i = 1; i < settings.size(); ++i) EXPECT_FALSE(settings[i].is_recorded);
}

TEST(SettingsTest, IncludesCommonRecommendations) {
  const auto all = confs(candidate_settings({.recorded = pytorch_defaults()}));
  for (const char* conf :
       {"", "expandable_segments:True", "max_split_size_mb:64", "max_split_size_mb:128",
        "max_split_size_mb:256", "max_split_size_mb:512", "roundup_power2_divisions:4",
        "roundup_power2_divisions:8", "large_segment_size_mb:64"}) {
    EXPECT_THAT(all, Contains(conf));
  }
  EXPECT_THAT(all, Contains(testing::HasSubstr(":[")));
}

TEST(SettingsTest, TriesGarbageCollectionOnlyUnderALimit) {
  const auto mentions_it = testing::HasSubstr("garbage_collection_threshold");
  EXPECT_THAT(confs(candidate_settings({.recorded = pytorch_defaults()})), Each(Not(mentions_it)));
  EXPECT_THAT(confs(candidate_settings({.recorded = pytorch_defaults(), .is_capped = true})),
              Contains(mentions_it));
  AllocatorOptions half = pytorch_defaults();
  half.memory_fraction = 0.5;
  const std::vector<Setting> settings = candidate_settings({.recorded = half});
  EXPECT_THAT(confs(settings), Contains(mentions_it));
  for (const Setting& setting : settings) EXPECT_EQ(setting.options.memory_fraction, 0.5);
}

TEST(SettingsTest, KeepsTheRecordedLimitUnlessOverridden) {
  AllocatorOptions half = pytorch_defaults();
  half.memory_fraction = 0.5;
  half.expandable_segments = true;
  const Result<Setting> kept = parse_setting("max_split_size_mb:64", half);
  ASSERT_TRUE(kept.ok()) << kept.status().to_string();
  EXPECT_EQ(kept->options.memory_fraction, 0.5);
  EXPECT_FALSE(kept->options.expandable_segments) << "the text replaces everything but the limit";
  EXPECT_EQ(kept->conf, "max_split_size_mb:64");
  EXPECT_EQ(parse_setting("per_process_memory_fraction:1.0", half)->options.memory_fraction, 1.0);
  EXPECT_FALSE(parse_setting("max_split_size_mb:many", half).ok());
}

TEST(SettingsTest, KeepsPyTorchCompatibilityAsRecorded) {
  for (const bool is_compatible : {true, false}) {
    AllocatorOptions recorded = pytorch_defaults();
    recorded.pytorch_compatible = is_compatible;
    for (const Setting& setting : candidate_settings({.recorded = recorded})) {
      if (setting.options.engine != EngineKind::kClassic) continue;
      EXPECT_EQ(setting.options.pytorch_compatible, is_compatible) << setting.conf;
    }
  }
}

TEST(SettingsTest, ListsPagedPoliciesLastAndTheDefaultFirst) {
  const std::vector<Setting> settings = candidate_settings({.recorded = pytorch_defaults()});
  std::vector<std::string> paged_confs;
  for (const Setting& setting : settings) {
    const bool is_paged = setting.options.engine == EngineKind::kPaged;
    if (is_paged) paged_confs.push_back(setting.conf);
    EXPECT_EQ(is_paged, !paged_confs.empty()) << setting.conf;
  }
  EXPECT_THAT(paged_confs, testing::ElementsAre("", "policy:lean", "policy:fast"));
}

TEST(SettingsTest, ComparesAPagedRunWithAllOtherSettings) {
  AllocatorOptions recorded = paged_defaults();
  recorded.policy = PagedPolicy::kLean;
  const std::vector<Setting> settings = candidate_settings({.recorded = recorded});
  EXPECT_EQ(settings[0].conf, "policy:lean");
  EXPECT_TRUE(settings[0].is_recorded);
  std::vector<std::string> texts;
  for (const Setting& setting : settings)
    texts.push_back(format_setting(setting, RecordedAllocator::kAshlar));
  EXPECT_EQ(std::count(texts.begin(), texts.end(), "engine:paged,policy:lean"), 1);
  for (const char* text : {"engine:paged", "engine:paged,policy:fast", "engine:classic",
                           "engine:classic,expandable_segments:True"}) {
    EXPECT_THAT(texts, Contains(text));
  }
}

TEST(SettingsTest, ParsesTextForTheRecordedEngineByDefault) {
  EXPECT_EQ(parse_setting("", pytorch_defaults())->options.engine, EngineKind::kClassic);
  EXPECT_EQ(parse_setting("policy:lean", paged_defaults())->options.engine, EngineKind::kPaged);
  const Result<Setting> other = parse_setting("engine:paged,policy:lean", pytorch_defaults());
  EXPECT_EQ(other->options.engine, EngineKind::kPaged);
  EXPECT_EQ(other->conf, "policy:lean") << "the engine is separate";
}

TEST(SettingsTest, IgnoresOptionsThatTheEngineIgnores) {
  AllocatorOptions classic = pytorch_defaults();
  classic.policy = PagedPolicy::kLean;
  EXPECT_TRUE(same_policy(classic, pytorch_defaults()));
  AllocatorOptions paged = paged_defaults();
  paged.expandable_segments = true;
  paged.pytorch_compatible = true;
  EXPECT_TRUE(same_policy(paged, paged_defaults()));
  paged.policy = PagedPolicy::kFast;
  EXPECT_FALSE(same_policy(paged, paged_defaults()));
  EXPECT_FALSE(same_policy(pytorch_defaults(), paged_defaults()));
}

TEST(SettingsTest, RecognizesPyTorchCompatibleRuns) {
  EXPECT_EQ(recorded_allocator_of(pytorch_defaults()), RecordedAllocator::kPytorch);
  EXPECT_EQ(recorded_allocator_of(paged_defaults()), RecordedAllocator::kAshlar);
  AllocatorOptions ours = pytorch_defaults();
  ours.pytorch_compatible = false;
  EXPECT_EQ(recorded_allocator_of(ours), RecordedAllocator::kAshlar);
}

TEST(SettingsTest, OmitsTheEngineForPyTorch) {
  const Setting classic = *parse_setting("max_split_size_mb:64", pytorch_defaults());
  const Setting paged = *parse_setting("engine:paged", pytorch_defaults());
  EXPECT_TRUE(can_set(classic, RecordedAllocator::kPytorch));
  EXPECT_FALSE(can_set(paged, RecordedAllocator::kPytorch));
  EXPECT_TRUE(can_set(paged, RecordedAllocator::kAshlar));
  EXPECT_EQ(format_setting(classic, RecordedAllocator::kPytorch), "max_split_size_mb:64");
  EXPECT_EQ(format_setting(classic, RecordedAllocator::kAshlar),
            "engine:classic,max_split_size_mb:64");
}

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
    options_.recorded = pytorch_defaults();
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
  options_.recorded = paged_defaults();
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

TEST_F(TuneTest, FindsTheMinimumAboveATooSmallDevice) {
  options_.find_min_capacity = true;
  options_.capacity_bytes = 40 * kMiB;
  const TuneResult result = run_tune();
  EXPECT_GT(trial_with(result, "").oom_count, 0U);
  EXPECT_EQ(trial_with(result, "").min_capacity_bytes, 56 * kMiB);
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
