// SPDX-License-Identifier: Apache-2.0
//
// Tests of the allocator options that a snapshot records.
#include "config/snapshot_settings.h"

#include <gtest/gtest.h>

#include "config/allocator_options.h"

namespace ashlar {
namespace {

TEST(SnapshotSettingsTest, RoundTripsOptions) {
  for (const char* text : {"", "policy:lean", "engine:classic", "compat:pytorch",
                           "engine:classic,expandable_segments:True", "max_split_size_mb:64",
                           "roundup_power2_divisions:[256:1,512:2,>:8]", "large_segment_size_mb:40",
                           "garbage_collection_threshold:0.8,per_process_memory_fraction:0.5"}) {
    const AllocatorOptions options = *parse_allocator_options(text);
    const RecordedOptions read = options_of(settings_of(options));
    EXPECT_EQ(read.options, options) << text;
    EXPECT_EQ(read.ignored, "");
  }
}

TEST(SnapshotSettingsTest, SettingsWithoutEngineArePyTorchs) {
  for (const char* text : {"", "expandable_segments:True"}) {
    const RecordedOptions read = options_of({{"PYTORCH_CUDA_ALLOC_CONF", std::string(text)}});
    EXPECT_EQ(read.options.engine, EngineKind::kClassic) << text;
    EXPECT_TRUE(read.options.pytorch_compatible) << text;
  }
  EXPECT_EQ(options_of({}).options.engine, EngineKind::kClassic);
}

TEST(SnapshotSettingsTest, ValuesOverrideTheText) {
  const RecordedOptions read =
      options_of({{"expandable_segments", true}, {"PYTORCH_CUDA_ALLOC_CONF", std::string()}});
  EXPECT_TRUE(read.options.expandable_segments);
}

TEST(SnapshotSettingsTest, ReportsUnknownSettingsAndKeepsTheRest) {
  const RecordedOptions read =
      options_of({{"PYTORCH_CUDA_ALLOC_CONF", std::string("no_such_option:1")},
                  {"max_split_size", int64_t{64} << 20},
                  {"expandable_segments", int64_t{1}}});
  EXPECT_NE(read.ignored.find("no_such_option"), std::string::npos);
  EXPECT_EQ(read.options.max_split_bytes, size_t{64} << 20);
  EXPECT_FALSE(read.options.expandable_segments);
}

TEST(SnapshotSettingsTest, IgnoresInvalidValues) {
  const RecordedOptions read = options_of({{"garbage_collection_threshold", 7.5}});
  EXPECT_EQ(read.options.garbage_collection_threshold, 0);
  EXPECT_NE(read.ignored, "");
}

}  // namespace
}  // namespace ashlar
