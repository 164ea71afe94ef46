// `ashlar tune` as a shell sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/run_cli.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

const std::string kSmallTrace = ASHLAR_GOLDEN_FOLDER "/traces/oom.1.pickle.xz";
const std::string kCapped = ASHLAR_GOLDEN_FOLDER "/traces/gpt2_capped.1.pickle.xz";

TEST(TuneCommand, JsonHasAResultForEachSettingAndTheBest) {
  const CliOutcome outcome = run_cli({{"tune", kSmallTrace, "--json"}});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const Json answer = Json::parse(outcome.out);
  ASSERT_GT(answer["results"].size(), 8U);
  for (const Json& result : answer["results"]) {
    EXPECT_EQ(result["engine"], "classic");
    EXPECT_EQ(result["ooms"], 0);
    EXPECT_GE(result["peak_reserved_bytes"], answer["lower_bound_bytes"]);
    EXPECT_GE(result["peak_reserved_bytes"], answer["best"]["peak_reserved_bytes"]);
    EXPECT_GT(result["driver_us"], 0.0);
  }
  EXPECT_TRUE(answer["results"][0]["is_recorded"]);
  EXPECT_EQ(answer["best"]["conf"], "expandable_segments:True");
  EXPECT_EQ(answer["paste"], "PYTORCH_CUDA_ALLOC_CONF=\"expandable_segments:True\"");
}

TEST(TuneCommand, TextMarksTheRecordedSettingAndEndsInALineToPaste) {
  const CliOutcome outcome = run_cli({{"tune", kSmallTrace, "--jobs", "1"}});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("(defaults), as recorded"));
  EXPECT_THAT(outcome.out, HasSubstr("It saves 120.00 MiB"));
  EXPECT_THAT(outcome.out,
              testing::EndsWith("Best: PYTORCH_CUDA_ALLOC_CONF=\"expandable_segments:True\"\n"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("least capacity")));
}

TEST(TuneCommand, MinCapacityLiesBetweenWhatIsRequestedAndWhatIsReserved) {
  const CliOutcome outcome = run_cli({{"tune", kSmallTrace, "--json", "--min-capacity"}});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json answer = Json::parse(outcome.out);
  constexpr int64_t kStep = int64_t{64} << 20;
  for (const Json& result : answer["results"]) {
    const auto least = result["min_capacity_bytes"].get<int64_t>();
    EXPECT_GE(least, answer["lower_bound_bytes"].get<int64_t>()) << result;
    EXPECT_LE(least, result["peak_reserved_bytes"].get<int64_t>() + kStep) << result;
  }
}

TEST(TuneCommand, UnderACapGarbageCollectionIsTriedAndNothingExceedsIt) {
  const CliOutcome outcome = run_cli({{"tune", kCapped, "--cap", "14GiB", "--json"}});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json answer = Json::parse(outcome.out);
  bool has_collection = false;
  for (const Json& result : answer["results"]) {
    EXPECT_LE(result["peak_reserved_bytes"].get<int64_t>(), int64_t{14} << 30) << result;
    has_collection |= result["conf"].get<std::string>().find("garbage") != std::string::npos;
  }
  EXPECT_TRUE(has_collection);
  // As PyTorch reported: pytorch_truth.tsv.
  EXPECT_EQ(answer["results"][0]["ooms"], 0);
}

TEST(TuneCommand, SaysNoWhereNothingFits) {
  const CliOutcome outcome = run_cli({{"tune", kSmallTrace, "--capacity", "1GiB"}});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("None of them completes"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("Best:")));
}

TEST(TuneCommand, WrongUsageIsSaid) {
  EXPECT_EQ(run_cli({{"tune"}}).exit_code, 2);
  EXPECT_EQ(run_cli({{"tune", kSmallTrace, "--jobs", "0"}}).exit_code, 2);
  EXPECT_EQ(run_cli({{"tune", kSmallTrace, "--device", "3"}}).exit_code, 2);
  const CliOutcome outcome = run_cli({{"tune", kSmallTrace, "--cap", "plenty"}});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--cap: plenty is not a size"));
}

TEST(TuneCommand, WhatIsNoSnapshotIsUnreadable) {
  EXPECT_EQ(run_cli({{"tune", "/nowhere/at/all.pickle"}}).exit_code, 3);
  EXPECT_EQ(run_cli({{"tune", ASHLAR_GOLDEN_FOLDER "/traces/pytorch_truth.tsv"}}).exit_code, 3);
}

}  // namespace
}  // namespace ashlar
