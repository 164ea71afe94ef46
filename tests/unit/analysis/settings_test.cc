// SPDX-License-Identifier: Apache-2.0
//
// Tests candidate settings and their text forms.
#include "analysis/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

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

TEST(SettingsTest, LeavesOutSettingsWithUnavailableOptions) {
  const auto all = confs(candidate_settings(
      {.recorded = pytorch_defaults(),
       .available = {.expandable_segments = false, .large_segment_size = false}}));
  EXPECT_THAT(all, Each(Not(testing::HasSubstr("expandable_segments"))));
  EXPECT_THAT(all, Each(Not(testing::HasSubstr("large_segment_size_mb"))));
  EXPECT_THAT(all, Contains("max_split_size_mb:64"));
}

TEST(SettingsTest, TriesGarbageCollectionOnlyUnderLimit) {
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

TEST(SettingsTest, ComparesPagedRunWithAllOtherSettings) {
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

}  // namespace
}  // namespace ashlar
