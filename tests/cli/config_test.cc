// SPDX-License-Identifier: Apache-2.0
//
// The interface of `ashlar config`: the table of options, the source of each setting, and --check.
// Every test runs the real tool.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/cli_json.h"
#include "config/allocator_options.h"

namespace ashlar {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

CliOutcome run_check(const std::string& settings) {
  return run_cli({.arguments = {"config", "--check", settings}});
}

Json config_as_json(const std::map<std::string, std::string>& environment) {
  const CliOutcome outcome =
      run_cli({.arguments = {"config", "--json"}, .environment = environment});
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return Json::parse(outcome.out);
}

Json option_named(const Json& answer, std::string_view name) {
  for (const Json& option : answer["options"]) {
    if (option["name"] == name) return option;
  }
  ADD_FAILURE() << name << " is not listed";
  return {};
}

TEST(CliConfigTest, JsonListsEveryOptionWithTextsAndDefaults) {
  const Json answer = config_as_json({});
  EXPECT_EQ(answer["conf"], "");
  ASSERT_EQ(answer["options"].size(), allocator_option_table().size());
  for (const OptionRow& row : allocator_option_table()) {
    const Json option = option_named(answer, row.name);
    EXPECT_EQ(option["default"], row.default_text);
    EXPECT_EQ(option["value"], row.default_text);
    EXPECT_EQ(option["range"], row.range);
    EXPECT_EQ(option["help"], row.help);
    EXPECT_TRUE(option["set_by"].is_null());
  }
  EXPECT_EQ(option_named(answer, "max_split_size_mb")["unit"], "MiB");
  EXPECT_TRUE(option_named(answer, "engine")["unit"].is_null());
  EXPECT_EQ(option_named(answer, "release_lock_on_cudamalloc")["alias"],
            "release_lock_on_hipmalloc");
}

TEST(CliConfigTest, JsonNamesVariableBehindEachSetting) {
  const Json answer =
      config_as_json({{"ASHLAR_ALLOC_CONF", "expandable_segments:True,backend:native"},
                      {"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64"}});
  EXPECT_EQ(answer["conf"], "expandable_segments:True");
  const Json option = option_named(answer, "expandable_segments");
  EXPECT_EQ(option["value"], "True");
  EXPECT_EQ(option["default"], "False");
  EXPECT_EQ(option["set_by"], "ASHLAR_ALLOC_CONF");
  EXPECT_TRUE(option_named(answer, "max_split_size_mb")["set_by"].is_null());
  ASSERT_EQ(answer["variables"].size(), 7U);
  EXPECT_EQ(answer["variables"][0], (Json{{"name", "ASHLAR_ALLOC_CONF"},
                                          {"value", "expandable_segments:True,backend:native"},
                                          {"is_used", true}}));
  EXPECT_EQ(answer["variables"][1], (Json{{"name", "PYTORCH_CUDA_ALLOC_CONF"},
                                          {"value", "max_split_size_mb:64"},
                                          {"is_used", false}}));
  EXPECT_EQ(answer["variables"][3],
            (Json{{"name", "PYTORCH_ALLOC_CONF"}, {"value", nullptr}, {"is_used", false}}));
}

TEST(CliConfigTest, JsonNamesSwitchBehindOption) {
  const Json answer = config_as_json({{"TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC", "1"}});
  const Json option = option_named(answer, "expandable_segments_ipc");
  EXPECT_EQ(option["value"], "True");
  EXPECT_EQ(option["set_by"], "TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC");
  EXPECT_EQ(
      answer["variables"][4],
      (Json{{"name", "TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC"}, {"value", "1"}, {"is_used", true}}));
}

TEST(CliConfigTest, TextListsEveryOptionAndCurrentValues) {
  const CliOutcome outcome =
      run_cli({.arguments = {"config"},
               .environment = {{"PYTORCH_HIP_ALLOC_CONF", "max_split_size_mb:64"},
                               {"PYTORCH_ALLOC_CONF", "not read"}}});
  EXPECT_EQ(outcome.exit_code, kExitSuccess);
  EXPECT_EQ(outcome.err, "");
  for (const OptionRow& row : allocator_option_table()) {
    EXPECT_THAT(outcome.out, HasSubstr("  " + std::string(row.name) + " "));
  }
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("now 64 (PYTORCH_HIP_ALLOC_CONF)"),
                                 HasSubstr("default 20; range 11–1048576 (MiB)"),
                                 HasSubstr("or release_lock_on_hipmalloc"), HasSubstr("not used")));
}

TEST(CliConfigTest, RejectsInvalidVariableByName) {
  const CliOutcome outcome = run_cli(
      {.arguments = {"config"}, .environment = {{"ASHLAR_ALLOC_CONF", "max_split_size_mb:12x"}}});
  EXPECT_EQ(outcome.exit_code, kExitInvalidArgument);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err,
            "ashlar: ASHLAR_ALLOC_CONF: max_split_size_mb: \"12x\" is not a number (expected "
            "20–1048576 or unlimited)\n");
}

TEST(CliConfigTest, OtherCommandsIgnoreAllocatorVariables) {
  EXPECT_EQ(run_cli({.arguments = {"info"},
                     .environment = {{"PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMalloc"}}})
                .exit_code,
            kExitSuccess);
}

TEST(CliConfigTest, CheckPrintsCanonicalTextAndEveryValue) {
  const CliOutcome outcome = run_check("expandable_segments:True, max_split_size_mb:64");
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, StartsWith("max_split_size_mb:64,expandable_segments:True\n"));
  for (const OptionRow& row : allocator_option_table()) {
    EXPECT_THAT(outcome.out, HasSubstr("  " + std::string(row.name) + " "));
  }
}

TEST(CliConfigTest, CheckOfEmptyTextReportsDefaults) {
  const CliOutcome outcome = run_check("");
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("All options have their default values.\n"));
}

TEST(CliConfigTest, CheckJsonHasTextAndValues) {
  const CliOutcome outcome = run_cli(
      {.arguments = {"config", "--json", "--check", "roundup_power2_divisions:[64:8,>:2]"}});
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const Json answer = Json::parse(outcome.out);
  EXPECT_EQ(answer["conf"], "roundup_power2_divisions:[64:8,>:2]");
  EXPECT_EQ(answer["values"].size(), allocator_option_table().size());
  EXPECT_EQ(answer["values"]["roundup_power2_divisions"], "[64:8,>:2]");
  EXPECT_EQ(answer["values"]["large_segment_size_mb"], "20");
}

TEST(CliConfigTest, CheckRejectsInvalidText) {
  for (const bool as_json : {false, true}) {
    CliRun run = {.arguments = {"config", "--check", "max_split_size_mb:12x"}};
    if (as_json) run.arguments.push_back("--json");
    const CliOutcome outcome = run_cli(run);
    EXPECT_EQ(outcome.exit_code, kExitInvalidArgument);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err,
              "ashlar: max_split_size_mb: \"12x\" is not a number (expected 20–1048576 or "
              "unlimited)\n");
  }
  EXPECT_EQ(run_check("max_split_size:64").err,
            "ashlar: max_split_size: no such option; did you mean max_split_size_mb?\n");
  EXPECT_EQ(run_check("[a:1]").exit_code, kExitInvalidArgument);
}

TEST(CliConfigTest, CheckIgnoresEnvironment) {
  const CliOutcome outcome =
      run_cli({.arguments = {"config", "--check", "expandable_segments:True"},
               .environment = {{"ASHLAR_ALLOC_CONF", "nonsense"}}});
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << outcome.err;
  EXPECT_THAT(outcome.out, Not(HasSubstr("ASHLAR_ALLOC_CONF")));
}

TEST(CliConfigTest, ReplacesInvalidUtf8InJson) {
  const CliOutcome outcome =
      run_cli({.arguments = {"config", "--json", "--check",
                             "expandable_segments_reserve_by_class:[c\xff:0.5]"}});
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << outcome.err;
  EXPECT_TRUE(Json::accept(outcome.out));
}

}  // namespace
}  // namespace ashlar
