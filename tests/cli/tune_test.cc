// SPDX-License-Identifier: Apache-2.0
//
// The interface of `ashlar tune`. Every test runs the real tool.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cli/cli_json.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(TuneCommand, JsonHasEverySettingAndTheBest) {
  const CliOutcome outcome = run_cli({{"tune", trace("oom.1"), "--json", "--capacity", "8GiB"}});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const Json answer = Json::parse(outcome.out);
  ASSERT_GT(answer["results"].size(), 8U);
  for (const Json& result : answer["results"]) {
    EXPECT_EQ(result["ooms"], 0);
    EXPECT_GE(result["peak_reserved_bytes"], answer["lower_bound_bytes"]);
    EXPECT_GT(result["driver_us"], 0.0);
    if (result["engine"] == "paged") continue;
    EXPECT_EQ(result["engine"], "classic");
    EXPECT_GE(result["peak_reserved_bytes"], answer["best"]["peak_reserved_bytes"]);
  }
  EXPECT_TRUE(answer["results"][0]["is_recorded"]);
  EXPECT_EQ(answer["best"]["conf"], "expandable_segments:True");
  EXPECT_EQ(answer["paste"], "PYTORCH_CUDA_ALLOC_CONF=\"expandable_segments:True\"");
}

TEST(TuneCommand, JsonHasPagedEngineAndBestPyTorchSetting) {
  const Json answer = Json::parse(run_cli({{"tune", trace("graph_pools.1"), "--json"}}).out);
  const auto has = [&](const char* conf) {
    for (const Json& result : answer["results"]) {
      if (result["engine"] == "paged" && result["conf"] == conf) return true;
    }
    return false;
  };
  EXPECT_TRUE(has(""));
  EXPECT_TRUE(has("policy:lean"));
  EXPECT_TRUE(has("policy:fast"));
  EXPECT_EQ(answer["best"]["engine"], "classic");
  EXPECT_EQ(answer["paged"]["engine"], "paged");
  EXPECT_EQ(answer["paged"]["conf"], "");
  EXPECT_LT(answer["paged"]["peak_reserved_bytes"], answer["best"]["peak_reserved_bytes"]);
}

TEST(TuneCommand, PrintsNoSettingIfOnlyPagedEngineFits) {
  const CliOutcome outcome =
      run_cli({{"tune", trace("graph_pools.1"), "--capacity", "475MiB", "--json"}});
  EXPECT_EQ(outcome.exit_code, 1);
  const Json answer = Json::parse(outcome.out);
  EXPECT_TRUE(answer["best"].is_null());
  EXPECT_TRUE(answer["paste"].is_null());
  EXPECT_EQ(answer["paged"]["ooms"], 0);
  const CliOutcome text = run_cli({{"tune", trace("graph_pools.1"), "--capacity", "475MiB"}});
  EXPECT_THAT(text.out, HasSubstr("None of PyTorch's settings completes"));
  EXPECT_THAT(text.out, HasSubstr("Ashlar's paged engine would have reserved"));
  EXPECT_THAT(text.out, HasSubstr("PyTorch has no setting for it"));
  EXPECT_THAT(text.out, Not(HasSubstr("ALLOC_CONF")));
}

TEST(TuneCommand, TextMarksRecordedSettingAndEndsWithBest) {
  const CliOutcome outcome =
      run_cli({{"tune", trace("oom.1"), "--jobs", "1", "--capacity", "8GiB"}});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("(defaults), as recorded"));
  EXPECT_THAT(outcome.out, HasSubstr("reserves 120.00 MiB ("));
  EXPECT_THAT(outcome.out,
              testing::EndsWith("Best: PYTORCH_CUDA_ALLOC_CONF=\"expandable_segments:True\"\n"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("min capacity")));
}

TEST(TuneCommand, MinCapacityIsBetweenRequestedAndReserved) {
  const CliOutcome outcome =
      run_cli({{"tune", trace("oom.1"), "--json", "--min-capacity", "--capacity", "8GiB"}});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json answer = Json::parse(outcome.out);
  constexpr int64_t kStepBytes = int64_t{64} << 20;
  for (const Json& result : answer["results"]) {
    const auto min_capacity = result["min_capacity_bytes"].get<int64_t>();
    EXPECT_GE(min_capacity, answer["lower_bound_bytes"].get<int64_t>()) << result;
    EXPECT_LE(min_capacity, result["peak_reserved_bytes"].get<int64_t>() + kStepBytes) << result;
  }
}

TEST(TuneCommand, TriesGarbageCollectionUnderCap) {
  const CliOutcome outcome =
      run_cli({{"tune", trace("gpt2_capped.1"), "--cap", "14GiB", "--json"}});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json answer = Json::parse(outcome.out);
  bool has_collection = false;
  for (const Json& result : answer["results"]) {
    EXPECT_LE(result["peak_reserved_bytes"].get<int64_t>(), int64_t{14} << 30) << result;
    has_collection |= result["conf"].get<std::string>().find("garbage") != std::string::npos;
  }
  EXPECT_TRUE(has_collection);
  // PyTorch did not run out of memory either (pytorch_truth.tsv).
  EXPECT_EQ(answer["results"][0]["ooms"], 0);
}

TEST(TuneCommand, FailsIfNoSettingFits) {
  const CliOutcome outcome = run_cli({{"tune", trace("oom.1"), "--capacity", "1GiB"}});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("None of PyTorch's settings completes"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("Best:")));
}

TEST(TuneCommand, RejectsInvalidUsage) {
  EXPECT_EQ(run_cli({{"tune"}}).exit_code, 2);
  EXPECT_EQ(run_cli({{"tune", trace("oom.1"), "--jobs", "0"}}).exit_code, 2);
  EXPECT_EQ(run_cli({{"tune", trace("oom.1"), "--device", "3"}}).exit_code, 2);
  const CliOutcome outcome = run_cli({{"tune", trace("oom.1"), "--cap", "plenty"}});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--cap: plenty is not a size"));
}

TEST(TuneCommand, RejectsFilesThatAreNotSnapshots) {
  EXPECT_EQ(run_cli({{"tune", "/nowhere/at/all.pickle"}}).exit_code, 3);
  EXPECT_EQ(run_cli({{"tune", ASHLAR_GOLDEN_FOLDER "/traces/pytorch_truth.tsv"}}).exit_code, 3);
}

}  // namespace
}  // namespace ashlar
