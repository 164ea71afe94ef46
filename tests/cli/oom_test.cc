// SPDX-License-Identifier: Apache-2.0
//
// The interface of `ashlar oom`, on a real failure: a process that was limited to 2 % of a device
// (tests/golden/traces/oom.1.pickle.xz).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "cli/cli_json.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kCapBytes = 150109880320 / 50;

// Expects the numbers of PyTorch's error message: 2.64 GiB allocated, 142.44 MiB reserved but not
// allocated.
void expect_same_as_pytorch(const Json& answer) {
  EXPECT_EQ(answer["entry"], 480);
  EXPECT_EQ(answer["was_recorded"], true);
  EXPECT_EQ(answer["rounded_bytes"], 27032576);
  EXPECT_EQ(answer["segment_bytes"], 26 << 20);
  const Json& state = answer["state"];
  const auto allocated = state["allocated_bytes"].get<double>();
  const auto reserved = state["reserved_bytes"].get<double>();
  EXPECT_NEAR(allocated / (1 << 30), 2.64, 0.005);
  EXPECT_NEAR((reserved - allocated) / (1 << 20), 142.44, 0.005);
  EXPECT_EQ(state["free_bytes"].get<double>(), reserved - allocated);
  EXPECT_LT(state["largest_hole_bytes"].get<int64_t>(), 27032576);
}

TEST(OomCommand, ExplainsRecordedFailureUnderInferredLimit) {
  const Json answer = run_json({"oom", trace("oom.1")});
  expect_same_as_pytorch(answer);
  EXPECT_EQ(answer["device_free_bytes"], 145686528000);
  EXPECT_EQ(answer["limit"]["is_inferred"], true);
  EXPECT_LE(answer["limit"]["at_least_bytes"].get<int64_t>(), kCapBytes);
  EXPECT_GT(answer["limit"]["below_bytes"].get<int64_t>(), kCapBytes);
}

TEST(OomCommand, ExplainsRecordedFailureUnderGivenCap) {
  const Json answer = run_json({"oom", trace("oom.1"), "--cap", std::to_string(kCapBytes)});
  expect_same_as_pytorch(answer);
  EXPECT_EQ(answer["limit"]["is_inferred"], false);
  EXPECT_EQ(answer["limit"]["at_least_bytes"], kCapBytes);
}

TEST(OomCommand, NamesBlocksThatPinFreeMemory) {
  const Json answer = run_json({"oom", trace("oom.1")});
  const Json& pinned = answer["state"]["pinned_segments"];
  ASSERT_FALSE(pinned.empty());
  for (const Json& segment : pinned) {
    EXPECT_LE(segment["free_bytes"], pinned[0]["free_bytes"]);
    const Json& block = segment["largest_blocks"][0];
    EXPECT_EQ(block["frames"][0]["name"], "oom");
    EXPECT_GT(block["age_us"], 0);
  }
}

TEST(OomCommand, FittingSettingsCompleteWhenReplayed) {
  const Json answer = run_json({"oom", trace("oom.1")});
  bool has_expandable = false;
  bool has_paged = false;
  for (const Json& setting : answer["fitting"]) {
    // The recorded run failed with PyTorch's defaults, so they cannot be among the fitting
    // settings.
    EXPECT_TRUE(setting["engine"] == "paged" || setting["conf"] != "") << setting;
    has_expandable |= setting["conf"] == "expandable_segments:True";
    has_paged |= setting["engine"] == "paged";
    const std::string cap = std::to_string(answer["limit"]["replayed_bytes"].get<int64_t>());
    const CliOutcome replayed = run_cli({{"replay", trace("oom.1"), "--engine", setting["engine"],
                                          "--conf", setting["conf"], "--cap", cap}});
    EXPECT_EQ(replayed.exit_code, 0) << setting << replayed.out;
  }
  EXPECT_TRUE(has_expandable);
  EXPECT_TRUE(has_paged);
}

TEST(OomCommand, PrintsNoSettingIfOnlyPagedEngineFits) {
  const CliOutcome outcome = run_cli({{"oom", trace("graph_pools.1"), "--capacity", "475MiB"}});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("None of PyTorch's settings completes"));
  EXPECT_THAT(outcome.out, HasSubstr("ashlar.torch.enable()"));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("ALLOC_CONF")));
}

TEST(OomCommand, TextShowsInferredLimit) {
  const CliOutcome outcome = run_cli({{"oom", trace("oom.1")}});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("out of memory at entry 480, as recorded"));
  EXPECT_THAT(outcome.out, HasSubstr("about 2.79 GiB (2.79 GiB was granted, 2.80 GiB refused)"));
  EXPECT_THAT(outcome.out, HasSubstr("26.00 MiB"));
  EXPECT_THAT(outcome.out, HasSubstr("142.44 MiB"));
  EXPECT_THAT(outcome.out, HasSubstr("PYTORCH_CUDA_ALLOC_CONF=\"expandable_segments:True\""));
}

TEST(OomCommand, PrintsVerdictFirst) {
  const CliOutcome outcome = run_cli({{"oom", trace("oom.1")}});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out.substr(0, 250),
              HasSubstr("Fragmentation, not a lack of memory: 140.46 MiB is free"));
  const Json verdict = run_json({"oom", trace("oom.1")})["verdict"];
  EXPECT_EQ(verdict["reason"], "fragmented");
  EXPECT_EQ(verdict["paste"], "PYTORCH_CUDA_ALLOC_CONF=\"expandable_segments:True\"");
  EXPECT_EQ(verdict["best"]["conf"], "expandable_segments:True");
  EXPECT_EQ(verdict["paged"]["engine"], "paged");
  EXPECT_EQ(verdict["excess_bytes"], 0);
}

TEST(OomCommand, ReportsThatNoSettingHelpsAndLargestLines) {
  const std::string file = ASHLAR_GOLDEN_FOLDER "/recordings/transformer.pickle.xz";
  const Json answer = run_json({"oom", file, "--cap", "150MiB"});
  const Json& verdict = answer["verdict"];
  EXPECT_EQ(verdict["reason"], "in_use");
  EXPECT_EQ(verdict["needed_bytes"], answer["recorded"]["peak_requested_bytes"]);
  EXPECT_EQ(verdict["excess_bytes"], verdict["needed_bytes"].get<int64_t>() - (150 << 20));
  EXPECT_TRUE(answer["fitting"].empty());
  EXPECT_TRUE(verdict["paste"].is_null());
  int64_t held = 0;
  for (const Json& holder : answer["holders"]) held += holder["bytes"].get<int64_t>();
  EXPECT_EQ(held, answer["live_requested_bytes"]);
  EXPECT_THAT(answer["categories"].dump(), HasSubstr("activations"));
  const CliOutcome text = run_cli({{"oom", file, "--cap", "150MiB"}});
  EXPECT_THAT(text.out, HasSubstr("the run needs at least 161.46 MiB, limit 150.00 MiB"));
  EXPECT_THAT(text.out, HasSubstr("No setting and no engine helps. Use at least 11.46 MiB less"));
  EXPECT_THAT(text.out, HasSubstr("torch.utils.checkpoint"));
}

TEST(OomCommand, ReportsRequestAboveAnyLimit) {
  const std::string file = ASHLAR_GOLDEN_FOLDER "/recordings/transformer.pickle.xz";
  const CliOutcome text = run_cli({{"oom", file, "--cap", "1MiB"}});
  EXPECT_THAT(text.out, HasSubstr("The request alone exceeds the limit"));
  EXPECT_THAT(text.out, HasSubstr("shape that was requested."));
  EXPECT_THAT(text.out, HasSubstr("helps. Request at least"));
  EXPECT_THAT(text.out, testing::Not(HasSubstr("less at the lines")));
}

TEST(OomCommand, ReportsThatRunCompletesUnderGivenLimit) {
  const CliOutcome text = run_cli({{"oom", trace("oom.1"), "--capacity", "80GiB"}});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("completes under 80.00 GiB"));
  EXPECT_THAT(text.out, HasSubstr("The recorded failure at entry 480 does not occur"));
  const Json answer = run_json({"oom", trace("oom.1"), "--capacity", "80GiB"});
  EXPECT_EQ(answer["out_of_memory"], false);
  EXPECT_EQ(answer["limit"]["at_least_bytes"], int64_t{80} << 30);
  EXPECT_EQ(answer["limit"]["is_inferred"], false);
}

TEST(OomCommand, ComparesPeaksWithTheRequestsLikeTune) {
  const Json answer = run_json({"oom", trace("oom.1")});
  const Json tuned = run_json({"tune", trace("oom.1")});
  const auto reserved = answer["verdict"]["best"]["peak_reserved_bytes"].get<double>();
  char ratio[16];
  std::snprintf(ratio, sizeof ratio, " %.3f ", reserved / tuned["lower_bound_bytes"].get<double>());
  const CliOutcome text = run_cli({{"oom", trace("oom.1")}});
  EXPECT_THAT(text.out, HasSubstr(ratio));
}

TEST(OomCommand, ReportsNoFailureForCompleteRun) {
  const CliOutcome outcome = run_cli({{"oom", trace("unet_multires.1")}});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("no out-of-memory failure"));
  EXPECT_EQ(run_json({"oom", trace("unet_multires.1")})["out_of_memory"], false);
}

TEST(OomCommand, SmallCapMakesCompleteRunFail) {
  const Json answer = run_json({"oom", trace("unet_multires.1"), "--cap", "100MiB"});
  EXPECT_EQ(answer["out_of_memory"], true);
  EXPECT_EQ(answer["was_recorded"], false);
  EXPECT_GT(answer["requested_bytes"], 0);
}

TEST(OomCommand, RejectsInvalidUsageAndUnreadableFiles) {
  EXPECT_EQ(run_cli({{"oom"}}).exit_code, 2);
  EXPECT_EQ(run_cli({{"oom", trace("oom.1"), "--capacity", "0"}}).exit_code, 2);
  EXPECT_EQ(run_cli({{"oom", "/nowhere/at/all.pickle"}}).exit_code, 3);
}

}  // namespace
}  // namespace ashlar
