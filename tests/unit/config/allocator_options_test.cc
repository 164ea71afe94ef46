// SPDX-License-Identifier: Apache-2.0
//
// Tests of several options in one string, of strings applied one after another, and of option
// structs. allocator_option_table_test.cc tests each option.
#include "config/allocator_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/units.h"
#include "unit/config/options_under_test.h"

namespace ashlar {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// --- several options

TEST(AllocatorOptionsTest, EmptyTextChangesNothing) {
  const AllocatorOptions base = parse("expandable_segments:True,max_split_size_mb:64");
  EXPECT_EQ(parse("", base), base);
  EXPECT_EQ(parse(" \n", base), base);
}

TEST(AllocatorOptionsTest, FormatsOptionsInTableOrder) {
  const AllocatorOptions options = parse(" expandable_segments : True , max_split_size_mb : 64 ");
  EXPECT_TRUE(options.expandable_segments);
  EXPECT_EQ(options.max_split_bytes, 64 * kMiB);
  EXPECT_EQ(format_allocator_options(options), "max_split_size_mb:64,expandable_segments:True");
}

TEST(AllocatorOptionsTest, RejectsDuplicateOptionsAndAliases) {
  EXPECT_EQ(error_for("expandable_segments:True,expandable_segments:True"),
            "expandable_segments: \"True\" is its second value (expected one)");
  EXPECT_EQ(error_for("release_lock_on_cudamalloc:True,release_lock_on_hipmalloc:False"),
            "release_lock_on_hipmalloc: \"False\" is its second value (expected one)");
}

TEST(AllocatorOptionsTest, SuggestsTheNearestName) {
  EXPECT_EQ(error_for("max_split_size:64"),
            "max_split_size: no such option; did you mean max_split_size_mb?");
  EXPECT_EQ(error_for("Expandable_Segments:True"),
            "Expandable_Segments: no such option; did you mean expandable_segments?");
  EXPECT_EQ(error_for("release_lock_on_hip_malloc:True"),
            "release_lock_on_hip_malloc: no such option; did you mean release_lock_on_hipmalloc?");
}

TEST(AllocatorOptionsTest, RejectsUnknownOptionWithReference) {
  EXPECT_EQ(error_for("colour:red"), "colour: no such option (ashlar config lists all)");
  EXPECT_THAT(error_for(std::string(100000, 'x') + ":1"),
              AllOf(HasSubstr("xxx…: no such option"), HasSubstr("ashlar config")));
}

TEST(AllocatorOptionsTest, RejectsBadSeparators) {
  EXPECT_THAT(error_for("expandable_segments=True"), HasSubstr("expected name:value"));
  EXPECT_THAT(error_for("expandable_segments:True;max_split_size_mb:64"),
              HasSubstr("\"True;max_split_size_mb\" is followed by \":64\""));
  EXPECT_THAT(error_for("expandable_segments:True:max_split_size_mb"),
              HasSubstr("\"True\" is followed by \":max_split_size_mb\""));
}

TEST(AllocatorOptionsTest, BoundsFollowLargeSegmentSizeInAnyOrder) {
  const AllocatorOptions options = parse("max_split_size_mb:12,large_segment_size_mb:12");
  EXPECT_EQ(options.max_split_bytes, 12 * kMiB);
  EXPECT_EQ(error_for("max_split_size_mb:63,large_segment_size_mb:64"),
            "max_split_size_mb: \"63\" is out of range (expected 64–1048576 or unlimited)");
  EXPECT_EQ(error_for("max_non_split_rounding_mb:32,large_segment_size_mb:64"),
            "max_non_split_rounding_mb: \"32\" is out of range (expected 64–1048576)");
}

TEST(AllocatorOptionsTest, RejectsLargeSegmentAboveEarlierBound) {
  const AllocatorOptions base = parse("max_split_size_mb:32");
  EXPECT_EQ(error_for("large_segment_size_mb:64", base),
            "max_split_size_mb: \"32\" is out of range (expected 64–1048576 or unlimited)");
}

TEST(AllocatorOptionsTest, CompatSelectsClassicUnlessEngineIsNamed) {
  EXPECT_EQ(parse("").engine, EngineKind::kPaged);
  EXPECT_EQ(parse("compat:pytorch").engine, EngineKind::kClassic);
  EXPECT_EQ(parse("compat:none").engine, EngineKind::kPaged);
  EXPECT_EQ(parse("compat:pytorch,engine:paged").engine, EngineKind::kPaged);
  const AllocatorOptions paged = parse("engine:paged,compat:pytorch");
  EXPECT_EQ(parse("max_split_size_mb:64", paged).engine, EngineKind::kPaged)
      << "compat is not applied again";
}

// --- strings applied one after another

constexpr const char* kResetByPytorch =
    "max_split_size_mb:64,max_non_split_rounding_mb:32,roundup_power2_divisions:4,"
    "garbage_collection_threshold:0.5";

TEST(AllocatorOptionsTest, SecondTextChangesOnlyNamedOptions) {
  const AllocatorOptions base = parse(kResetByPytorch);
  const AllocatorOptions again = parse("expandable_segments:True,max_split_size_mb:128", base);
  AllocatorOptions wanted = base;
  wanted.expandable_segments = true;
  wanted.max_split_bytes = 128 * kMiB;
  EXPECT_EQ(again, wanted);
}

TEST(AllocatorOptionsTest, CompatResetsSameOptionsAsPytorch) {
  const AllocatorOptions base = parse(std::string(kResetByPytorch) +
                                      ",compat:pytorch,large_segment_size_mb:24,"
                                      "per_process_memory_fraction:0.5");
  EXPECT_EQ(parse("expandable_segments:True", base),
            parse("compat:pytorch,large_segment_size_mb:24,per_process_memory_fraction:0.5,"
                  "expandable_segments:True"));
  EXPECT_EQ(parse("max_split_size_mb:128", base).max_split_bytes, 128 * kMiB);
  EXPECT_EQ(parse("", base), parse("compat:pytorch,large_segment_size_mb:24,"
                                   "per_process_memory_fraction:0.5"));
}

TEST(AllocatorOptionsTest, ListReplacesThePreviousList) {
  const AllocatorOptions base =
      parse("expandable_segments_reserve_by_class:[a:1G],roundup_power2_divisions:[1:2,>:4]");
  const AllocatorOptions again =
      parse("expandable_segments_reserve_by_class:[b:2G],roundup_power2_divisions:[2:8]", base);
  EXPECT_EQ(again.expandable_reserve_by_class.size(), 1U);
  EXPECT_EQ(again.expandable_reserve_by_class.count("b"), 1U);
  EXPECT_EQ(again.roundup_power2_divisions[15], 0U);
}

// --- option structs

std::string error_after(const std::function<void(AllocatorOptions&)>& change) {
  AllocatorOptions options;
  change(options);
  const Status status = check_allocator_options(options);
  EXPECT_EQ(status.kind(), StatusKind::kInvalidArgument);
  return status.message();
}

TEST(AllocatorOptionsTest, ChecksRangesOfOptionStructs) {
  EXPECT_TRUE(check_allocator_options(AllocatorOptions()).ok());
  EXPECT_EQ(error_after([](auto& o) { o.memory_fraction = -0.5; }),
            "per_process_memory_fraction: \"-0.5\" is out of range (expected 0–1)");
  EXPECT_THAT(error_after([](auto& o) { o.memory_fraction = std::nan(""); }),
              HasSubstr("per_process_memory_fraction: \"nan\" is not a number"));
  EXPECT_THAT(error_after([](auto& o) { o.large_segment_bytes = SIZE_MAX; }),
              HasSubstr("large_segment_size_mb: "));
  EXPECT_THAT(error_after([](auto& o) { o.max_split_bytes = kMiB; }),
              HasSubstr("max_split_size_mb: \"1\" is out of range (expected 20–1048576"));
  EXPECT_THAT(error_after([](auto& o) { o.roundup_power2_divisions[3] = 3; }),
              HasSubstr("roundup_power2_divisions: "));
  EXPECT_THAT(error_after([](auto& o) { o.pinned.register_thread_count = 0; }),
              HasSubstr("pinned_num_register_threads: \"0\""));
  EXPECT_THAT(error_after([](auto& o) { o.expandable_reserve = ReserveSize(); }),
              HasSubstr("expandable_segments_reserve: \"0\" is out of range"));
}

TEST(AllocatorOptionsTest, RejectsUnprintableOptions) {
  EXPECT_EQ(error_after(
                [](auto& o) { o.expandable_reserve = {.capacity_fraction = 0.5, .bytes = kGiB}; }),
            "expandable_segments_reserve: this value cannot be written (expected a fraction above "
            "0, GiB up to 1048576G, or unset)");
  for (const char* name : {"", " a", "a,b", "a:b", "a]", "x:1],expandable_segments:[y"}) {
    EXPECT_THAT(
        error_after([&](auto& o) { o.expandable_reserve_by_class[name] = {.bytes = kGiB}; }),
        HasSubstr("expandable_segments"))
        << name;
  }
}

}  // namespace
}  // namespace ashlar
