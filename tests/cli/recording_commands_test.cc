// SPDX-License-Identifier: Apache-2.0
//
// The interface of the commands that analyze recordings, and of symm-bench: JSON, exit codes, and
// error messages. Other files test annotate, oom, tune, export and view. The file is long because
// it covers all other commands on recordings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "cli/cli_json.h"

namespace ashlar {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr size_t kMiB = 1 << 20;

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ashlar_XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string contents(const std::string& name) const {
    std::ifstream file(path_ / name);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

 private:
  std::filesystem::path path_;
};

TEST(CliLeaksTest, JsonNamesLeakingStackAndBytesPerIteration) {
  const Json answer = run_json({"leaks", trace("leaky")});
  EXPECT_EQ(answer["grouped_by"], "stack");
  EXPECT_EQ(answer["device"], 0);
  EXPECT_EQ(answer["entries"], 484);
  EXPECT_EQ(answer["live_bytes_at_end"], 640 * kMiB);
  ASSERT_EQ(answer["leaks"].size(), 1U);
  const Json& leak = answer["leaks"][0];
  EXPECT_EQ(leak["live_bytes"], 240 * kMiB);
  EXPECT_EQ(leak["live_count"], 120);
  EXPECT_EQ(leak["bytes_per_iteration"], 2 * kMiB);
  EXPECT_EQ(leak["live_bytes_after_iterations"].size(), 120U);
  EXPECT_EQ(answer["iterations"], 120);
  EXPECT_EQ(answer["iterations_from"], "repeated allocations");
  EXPECT_EQ(
      leak["stack"][0],
      (Json{{"name", "append_loss"}, {"filename", "/srv/jobs/llm/metrics.py"}, {"line", 17}}));
}

TEST(CliLeaksTest, JsonNamesGroupingWithoutStacks) {
  const Json answer = run_json({"leaks", trace("graph_pools.1")});
  EXPECT_EQ(answer["grouped_by"], "size_class_and_stream");
  EXPECT_EQ(answer["leaks"], Json::array());
}

TEST(CliLeaksTest, ReportsWhyLeaksCannotBeFound) {
  const Json answer = run_json({"leaks", trace("oom.1")});
  EXPECT_EQ(answer["can_tell"], false);
  EXPECT_THAT(answer["problem"].get<std::string>(), HasSubstr("no optimizer step"));
  EXPECT_THAT(run_cli({.arguments = {"leaks", trace("oom.1")}}).out,
              HasSubstr("Cannot tell whether memory leaks: no optimizer step"));
}

// Returns the bytes of the groups at the peak, by name.
std::map<std::string, size_t> groups_at_peak(const std::vector<std::string>& options) {
  std::vector<std::string> arguments = {"report", trace("leaky")};
  arguments.insert(arguments.end(), options.begin(), options.end());
  std::map<std::string, size_t> bytes;
  const Json report = run_json(arguments);
  for (const Json& group : report["at_peak"]["groups"]) bytes[group["name"]] = group["bytes"];
  return bytes;
}

TEST(CliReportTest, GroupsByCategoryAndRegularExpression) {
  EXPECT_EQ(groups_at_peak({"--by", "category"})["kept results"], 236 * kMiB);
  const std::map<std::string, size_t> groups = groups_at_peak(
      {"--group", "metrics=metrics.py:17$", "--group", "torch=site-packages/torch/"});
  EXPECT_EQ(groups.at("metrics"), 238 * kMiB);
  EXPECT_TRUE(groups.contains("torch"));
  EXPECT_FALSE(groups.contains("other"));
}

TEST(CliReportTest, ReadsGroupsFromFile) {
  const ScratchFolder folder;
  std::ofstream(folder.file("groups")) << "# mine\n\nlosses=append_loss\r\n";
  EXPECT_EQ(groups_at_peak({"--groups", folder.file("groups")})["losses"], 238 * kMiB);
  std::ofstream(folder.file("groups")) << "losses=append_loss\nlosses=(\n";
  const CliOutcome outcome =
      run_cli({.arguments = {"report", trace("leaky"), "--groups", folder.file("groups")}});
  EXPECT_EQ(outcome.exit_code, kExitInvalidArgument);
  EXPECT_THAT(outcome.err, HasSubstr("groups:2: group \"losses\": missing )"));
}

TEST(CliReportTest, RejectsGroupsWithoutName) {
  const CliOutcome outcome =
      run_cli({.arguments = {"report", trace("leaky"), "--group", "=append_loss"}});
  EXPECT_EQ(outcome.exit_code, kExitInvalidArgument);
  EXPECT_THAT(outcome.err, HasSubstr("expected NAME=REGEX"));
}

TEST(CliReportTest, JsonHasCategoriesAndIterations) {
  const Json answer = run_json({"report", trace("leaky")});
  EXPECT_EQ(answer["iterations"]["complete"], 120);
  EXPECT_EQ(answer["iterations"]["all"].size(), 120U);
  size_t bytes = 0;
  for (const Json& category : answer["categories"]) {
    size_t of_rules = 0;
    for (const Json& rule : category["rules"]) of_rules += rule["bytes_at_peak"].get<size_t>();
    EXPECT_EQ(category["bytes_at_peak"], of_rules);
    bytes += of_rules;
  }
  EXPECT_EQ(bytes, answer["peak_requested_bytes"]);
}

TEST(CliDiffTest, JsonDifferencesAddUp) {
  const Json answer = run_json({"diff", trace("oom.1"), trace("leaky"), "--at", "peak"});
  EXPECT_EQ(answer["at"], "peak");
  EXPECT_EQ(answer["base"]["bytes"], 2818063137) << "peak requested bytes of the run";
  EXPECT_EQ(answer["new"]["bytes"], 848 * kMiB);
  const auto difference = answer["difference_bytes"].get<int64_t>();
  EXPECT_EQ(difference, static_cast<int64_t>(848 * kMiB) - 2818063137);
  for (const char* list : {"by_stack", "by_size_class", "by_stream"}) {
    int64_t sum = 0;
    for (const Json& row : answer[list]) sum += row["difference_bytes"].get<int64_t>();
    EXPECT_EQ(sum, difference) << list;
  }
  EXPECT_EQ(answer["by_stack"].size(), 4U);
  EXPECT_EQ(answer["by_stack"][0]["stack"][0]["name"], "oom");
}

TEST(CliDiffTest, ShowsUserCodeUnlessAllFramesAreRequested) {
  const auto largest = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"diff", trace("oom.1"), trace("leaky")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_json(arguments)["by_stack"][0];
  };
  const Json user = largest({});
  EXPECT_EQ(user["stack"][0]["name"], "train");
  EXPECT_EQ(user["full_stack"][0]["name"], "__init__");
  EXPECT_EQ(largest({"--stacks", "full"})["stack"], user["full_stack"]);
}

TEST(CliDiffTest, ReportsNoDifferenceForSameFile) {
  const Json answer = run_json({"diff", trace("leaky"), trace("leaky")});
  EXPECT_EQ(answer["difference_bytes"], 0);
  for (const Json& row : answer["by_stack"]) EXPECT_EQ(row["difference_bytes"], 0);
}

TEST(CliGateTest, PassesEqualRuns) {
  const Json answer = run_json({"gate", trace("leaky"), trace("leaky"), "--peak", "+0%"});
  EXPECT_EQ(answer["passed"], true);
  ASSERT_EQ(answer["checks"].size(), 2U);
  EXPECT_EQ(answer["checks"][0], (Json{{"name", "peak requested"},
                                       {"unit", "bytes"},
                                       {"base", 848 * kMiB},
                                       {"new", 848 * kMiB},
                                       {"allowed", 848 * kMiB},
                                       {"passed", true}}));
}

TEST(CliGateTest, FailsWhenLimitIsExceeded) {
  const Json answer = run_json({"gate", trace("leaky"), trace("oom.1")}, kExitFailure);
  EXPECT_EQ(answer["passed"], false);
  ASSERT_EQ(answer["checks"].size(), 3U) << "without limits, the defaults apply";
  EXPECT_EQ(answer["checks"][0]["passed"], false);
  EXPECT_EQ(answer["checks"][2]["unit"], "fraction");
}

TEST(CliGateTest, WritesMarkdownAndJUnitFiles) {
  const ScratchFolder folder;
  const CliOutcome outcome =
      run_cli({.arguments = {"gate", trace("leaky"), trace("oom.1"), "--junit",
                             folder.file("gate.xml"), "--markdown", folder.file("gate.md")}});
  EXPECT_EQ(outcome.exit_code, kExitFailure);
  EXPECT_THAT(folder.contents("gate.xml"),
              AllOf(HasSubstr("<testsuite name=\"ashlar gate\" tests=\"3\" failures=\"2\""),
                    HasSubstr("<failure message=\"peak requested: ")));
  EXPECT_THAT(folder.contents("gate.md"), HasSubstr("| peak requested | 848.00 MiB |"));
  EXPECT_THAT(outcome.out, HasSubstr("Failed: 2 of 3 figures"));
}

TEST(CliGateTest, ReportsUnwritableFile) {
  const CliOutcome outcome = run_cli(
      {.arguments = {"gate", trace("leaky"), trace("leaky"), "--junit", "/nonexistent/gate.xml"}});
  EXPECT_EQ(outcome.exit_code, kExitFailure);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("/nonexistent/gate.xml"));
}

TEST(CliGateTest, RejectsInvalidLimitsBeforeReadingFiles) {
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"--peak", "much"}, {"--fragmentation", "+1MiB"}, {"--junit", "-"}}) {
    CliRun run = {.arguments = {"gate", "missing", "missing"}};
    run.arguments.insert(run.arguments.end(), wrong.begin(), wrong.end());
    const CliOutcome outcome = run_cli(run);
    EXPECT_EQ(outcome.exit_code, kExitInvalidArgument) << wrong[0];
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(wrong[0]));
  }
}

// Writes a recording with the setting `conf` and returns its path. A block, by default of 11.1 MiB,
// occupies a segment of 12 MiB whose remainder is too small to split off. The entries have no
// times.
std::string unsplit_run(const ScratchFolder& folder, const std::string& conf,
                        const std::string& bytes = "11639193") {
  std::ofstream(folder.file("run.json"))
      << R"({"segments": [], "device_traces": [[)"
      << R"({"action": "segment_alloc", "addr": 1048576, "size": 12582912, "stream": 0},)"
      << R"({"action": "alloc", "addr": 1048576, "size": )" << bytes << R"(, "stream": 0}]],)"
      << R"("allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": ")" << conf << R"("}})";
  return folder.file("run.json");
}

TEST(CliReportTest, LowerBoundAgreesInTextAndJson) {
  // The bound counts requested bytes; rounded to multiples of 512 B it would be 387.00 MiB.
  const Json graphs = run_json({"report", trace("graph_pools.1")});
  EXPECT_EQ(graphs["lower_bound_bytes"], graphs["peak_requested_bytes"]);
  EXPECT_THAT(run_cli({.arguments = {"report", trace("graph_pools.1")}}).out,
              HasSubstr("lower bound  386.99 MiB"));
}

TEST(CliReportTest, RoundingAdviceDependsOnRecordedSettings) {
  const ScratchFolder folder;
  const auto advice = [&](const std::string& conf) {
    return run_json({"report", unsplit_run(folder, conf)})["advice"].dump();
  };
  EXPECT_THAT(advice(""), HasSubstr("not split off"));
  EXPECT_THAT(advice("roundup_power2_divisions:2"), HasSubstr("more roundup_power2_divisions"));
}

TEST(CliReportTest, NamesPagedEngineButNotAsPyTorchSetting) {
  const Json advice = run_json({"report", trace("graph_pools.1")})["advice"];
  EXPECT_THAT(advice.dump(), HasSubstr("Ashlar's paged engine"));
  for (const Json& line : advice) {
    EXPECT_THAT(line.get<std::string>(), Not(HasSubstr("engine:paged")));
  }
}

TEST(CliReportTest, SuggestsPagedSettingsForPagedRuns) {
  const ScratchFolder folder;
  const Json report = run_json({"report", unsplit_run(folder, "engine:paged,policy:fast")});
  EXPECT_THAT(report["alternatives"].dump(), HasSubstr("policy:lean"));
  EXPECT_THAT(report["advice"].dump(), Not(HasSubstr("PyTorch has no setting")));
  const Json tuned = run_json({"tune", unsplit_run(folder, "engine:paged,policy:fast")});
  EXPECT_EQ(tuned["results"][0]["engine"], "paged");
  EXPECT_EQ(tuned["results"][0]["conf"], "policy:fast");
  EXPECT_TRUE(tuned["best"]["is_recorded"]) << "no setting saves anything";
  EXPECT_TRUE(tuned["paste"].is_null());
  const Json rounded =
      run_json({"tune", unsplit_run(folder, "engine:classic,compat:none,roundup_power2_divisions:2",
                                    "9639193")});
  EXPECT_EQ(rounded["paste"], "ASHLAR_ALLOC_CONF=\"engine:paged\"");
}

TEST(CliReplayTest, OmitsShareOfRunWithoutTimes) {
  const ScratchFolder folder;
  const std::string run = unsplit_run(folder, "");
  EXPECT_TRUE(run_json({"replay", run})["driver"]["share_of_run"].is_null());
  const CliOutcome outcome = run_cli({.arguments = {"replay", run}});
  EXPECT_THAT(outcome.out, HasSubstr("ms (modelled)\n"));
  const Json with_times = run_json({"replay", trace("oom.1")}, kExitFailure);  // out of memory
  EXPECT_GT(with_times["driver"]["share_of_run"], 0.0);
}

TEST(CliReplayTest, ReplaysWithAsyncEngine) {
  const Json answer = run_json({"replay", trace("gnn_sampling.1"), "--engine", "async"});
  EXPECT_EQ(answer["engine"], "async");
  EXPECT_TRUE(answer["fidelity"].is_null());
  EXPECT_EQ(answer["ooms"], 0);
  EXPECT_EQ(answer["driver"]["calls"]["allocate_async"], answer["allocs"]);
  EXPECT_GT(answer["peak_reserved_bytes"], answer["peak_allocated_bytes"]);
}

TEST(CliReplayTest, ReportsFailureBeforeFirstEntry) {
  const ScratchFolder folder;
  std::ofstream(folder.file("late.json"))
      << R"({"segments": [{"device": 0, "address": 2097152, "total_size": 20971520, "stream": 0,)"
      << R"("segment_type": "large", "blocks": [{"address": 2097152, "size": 20971520,)"
      << R"("requested_size": 20971520, "state": "active_allocated"}]}],)"
      << R"("device_traces": [[{"action": "snapshot", "addr": 0, "size": 0, "stream": 0}]]})";
  const std::string run = folder.file("late.json");
  const Json answer = run_json({"replay", run, "--capacity", "10MiB"}, kExitFailure);
  EXPECT_EQ(answer["ooms"], 1);
  EXPECT_TRUE(answer["oom_entries"][0]["entry"].is_null());
  EXPECT_THAT(run_cli({.arguments = {"replay", run, "--cap", "10MiB"}}).out,
              HasSubstr("First failure, before the first entry: a segment of 20.00 MiB"));
  EXPECT_THAT(run_cli({.arguments = {"oom", run, "--cap", "10MiB"}}).out,
              HasSubstr("out of memory before the first entry"));
}

TEST(CliCommandsTest, ReplayingCommandsNameIgnoredSettings) {
  const ScratchFolder folder;
  const std::string run = unsplit_run(folder, "nonsense:1");
  for (const char* command : {"report", "replay", "tune", "oom"}) {
    const CliOutcome outcome = run_cli({.arguments = {command, run}});
    EXPECT_EQ(outcome.exit_code, kExitSuccess) << command;
    EXPECT_THAT(outcome.err, HasSubstr("ignoring settings of the recording: nonsense")) << command;
  }
}

TEST(CliCommandsTest, JsonFlagTakesNoValue) {
  for (const char* command : {"bench", "config", "info", "symm-bench"}) {
    EXPECT_EQ(run_cli({.arguments = {command, "--json=false"}}).exit_code, kExitInvalidArgument)
        << command;
  }
  for (const char* command : {"leaks", "oom", "replay", "report", "tune"}) {
    EXPECT_EQ(run_cli({.arguments = {command, trace("leaky"), "--json=false"}}).exit_code,
              kExitInvalidArgument)
        << command;
  }
  for (const char* command : {"diff", "gate"}) {
    const std::vector<std::string> both = {command, trace("leaky"), trace("leaky"), "--json=false"};
    EXPECT_EQ(run_cli({.arguments = both}).exit_code, kExitInvalidArgument) << command;
  }
}

TEST(CliCommandsTest, SymmBenchMeasuresAllOperations) {
  const CliOutcome outcome =
      run_cli({.arguments = {"symm-bench", "--ranks", "3", "--rounds", "1", "--json"}});
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\"ranks\": 3"));
  for (const char* name : {"barrier", "memcpy", "put", "get", "all-reduce"}) {
    EXPECT_THAT(outcome.out, HasSubstr("\"name\": \"" + std::string(name)));
  }
  EXPECT_EQ(run_cli({.arguments = {"symm-bench", "--ranks", "0"}}).exit_code, kExitInvalidArgument);
}

TEST(CliCommandsTest, SymmBenchMeasuresUcx) {
  const CliOutcome outcome =
      run_cli({.arguments = {"symm-bench", "--transport", "ucx", "--ranks", "2", "--rounds", "1"}});
  if (ASHLAR_HAS_UCX) {
    EXPECT_EQ(outcome.exit_code, kExitSuccess) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("2 ranks, transport ucx, microseconds"));
  } else {
    EXPECT_EQ(outcome.exit_code, kExitFailure);
    EXPECT_THAT(outcome.err, HasSubstr("built without UCX"));
  }
  EXPECT_EQ(run_cli({.arguments = {"symm-bench", "--transport", "tcp"}}).exit_code,
            kExitInvalidArgument);
}

// Makes fork fail in this thread and its children. Starting threads and posix_spawn still work,
// because they do not copy the address space. Returns false if seccomp is not available.
bool disable_fork() {
  sock_filter rules[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
                         BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
                         BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_VM, 1, 0),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{std::size(rules), rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(CliCommandsTest, SymmBenchReportsForkFailure) {
  bool is_disabled = false;
  CliOutcome outcome;
  std::thread([&] {
    is_disabled = disable_fork();
    if (is_disabled) outcome = run_cli({.arguments = {"symm-bench"}});
  }).join();
  if (!is_disabled) GTEST_SKIP() << "SKIPPED: seccomp is not available";
  EXPECT_EQ(outcome.exit_code, kExitFailure);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("cannot start rank 0 of 2 (fork: "));
}

TEST(CliCommandsTest, LeaksHelpDefinesLeak) {
  EXPECT_THAT(run_cli({.arguments = {"leaks", "--help"}}).out,
              HasSubstr("at least three iterations"));
}

TEST(CliCommandsTest, NamesUnreadableFile) {
  const ScratchFolder folder;
  std::ofstream(folder.file("broken")) << "\x80\x04]broken";
  for (const std::string& file : {folder.file("broken"), folder.file("missing")}) {
    for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
             {"leaks", file}, {"diff", trace("leaky"), file}, {"gate", file, trace("leaky")}}) {
      for (const bool as_json : {false, true}) {
        CliRun run = {.arguments = arguments};
        if (as_json) run.arguments.emplace_back("--json");
        const CliOutcome outcome = run_cli(run);
        EXPECT_EQ(outcome.exit_code, kExitUnreadableInput) << arguments[0];
        EXPECT_EQ(outcome.out, "");
        EXPECT_THAT(outcome.err, HasSubstr(file));
      }
    }
  }
}

TEST(CliCommandsTest, RejectsInvalidUsage) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"leaks"},
           {"leaks", trace("leaky"), "--device", "-1"},
           {"diff", trace("leaky")},
           {"diff", trace("leaky"), trace("leaky"), "--at", "noon"},
           {"gate", trace("leaky")}}) {
    const CliOutcome outcome = run_cli({.arguments = arguments});
    EXPECT_EQ(outcome.exit_code, kExitInvalidArgument) << arguments.back();
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err, "");
  }
}

TEST(CliCommandsTest, RejectsUnknownDevice) {
  const CliOutcome outcome = run_cli({.arguments = {"leaks", trace("leaky"), "--device", "7"}});
  EXPECT_EQ(outcome.exit_code, kExitInvalidArgument);
  EXPECT_EQ(outcome.err,
            "ashlar: --device: the file has no data of device 7 (expected one of 0)\n");
}

TEST(CliCommandsTest, HandlesSnapshotWithoutTrace) {
  const ScratchFolder folder;
  std::ofstream(folder.file("empty.json")) << R"({"segments": [], "device_traces": [[]]})";
  EXPECT_EQ(run_json({"leaks", folder.file("empty.json")})["entries"], 0);
  EXPECT_EQ(run_json({"diff", folder.file("empty.json"), trace("leaky")})["new"]["count"], 121);
  const CliOutcome outcome = run_cli({.arguments = {"leaks", folder.file("empty.json")}});
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("no history"));
}

}  // namespace
}  // namespace ashlar
