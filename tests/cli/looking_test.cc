// SPDX-License-Identifier: Apache-2.0
//
// The commands that look at recorded runs: the JSON that programs read, exit codes, and what is
// said about bad input. oom and tune have files of their own.
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
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "cli/run_cli.h"

namespace ashlar {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kDone = 0;
constexpr int kNo = 1;
constexpr int kInvalidArgument = 2;
constexpr int kUnreadableInput = 3;

constexpr size_t kMiB = 1 << 20;

std::string trace(const std::string& name) {
  return std::string(ASHLAR_GOLDEN_FOLDER) + "/traces/" + name + ".pickle.xz";
}

// One object on standard output, and nothing else anywhere.
json json_of(std::vector<std::string> arguments, int exit_code = kDone) {
  arguments.emplace_back("--json");
  const CliOutcome outcome = run_cli({.arguments = std::move(arguments)});
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(json::accept(outcome.out)) << outcome.out;
  return json::parse(outcome.out, nullptr, false);
}

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

// --- leaks -----------------------------------------------------------------------------------

TEST(CliLeaksTest, JsonNamesTheStackAndHowFastItGrows) {
  const json answer = json_of({"leaks", trace("leaky")});
  EXPECT_EQ(answer["grouped_by"], "stack");
  EXPECT_EQ(answer["device"], 0);
  EXPECT_EQ(answer["entries"], 484);
  EXPECT_EQ(answer["live_bytes_at_end"], 640 * kMiB);
  ASSERT_EQ(answer["leaks"].size(), 1U);
  const json& leak = answer["leaks"][0];
  EXPECT_EQ(leak["live_bytes"], 240 * kMiB);
  EXPECT_EQ(leak["live_count"], 120);
  // 2 MiB in four entries, of a millisecond each.
  EXPECT_NEAR(leak["bytes_per_second"].get<double>(), 500.0 * kMiB, 5.0 * kMiB);
  EXPECT_NEAR(leak["bytes_per_1000_entries"].get<double>(), 500.0 * kMiB, 5.0 * kMiB);
  EXPECT_GT(leak["r_squared"].get<double>(), 0.99);
  EXPECT_EQ(
      leak["stack"][0],
      (json{{"name", "append_loss"}, {"filename", "/srv/jobs/llm/metrics.py"}, {"line", 17}}));
}

TEST(CliLeaksTest, WithoutStacksJsonSaysWhatIsTakenTogether) {
  const json answer = json_of({"leaks", trace("graph_pools.1")});
  EXPECT_EQ(answer["grouped_by"], "size_class_and_stream");
  EXPECT_EQ(answer["leaks"], json::array());
}

// --- diff ------------------------------------------------------------------------------------

TEST(CliDiffTest, JsonAddsUpToWhatBothSidesHold) {
  const json answer = json_of({"diff", trace("oom.1"), trace("leaky"), "--at", "peak"});
  EXPECT_EQ(answer["at"], "peak");
  EXPECT_EQ(answer["base"]["bytes"], 2818063137) << "the peak of what the run asked for";
  EXPECT_EQ(answer["new"]["bytes"], 848 * kMiB);
  const auto difference = answer["difference_bytes"].get<int64_t>();
  EXPECT_EQ(difference, static_cast<int64_t>(848 * kMiB) - 2818063137);
  for (const char* list : {"by_stack", "by_size_class", "by_stream"}) {
    int64_t sum = 0;
    for (const json& row : answer[list]) sum += row["difference_bytes"].get<int64_t>();
    EXPECT_EQ(sum, difference) << list;
  }
  EXPECT_EQ(answer["by_stack"].size(), 4U);
  EXPECT_EQ(answer["by_stack"][0]["stack"][0]["name"], "oom");
}

TEST(CliDiffTest, AFileDoesNotDifferFromItself) {
  const json answer = json_of({"diff", trace("leaky"), trace("leaky")});
  EXPECT_EQ(answer["difference_bytes"], 0);
  for (const json& row : answer["by_stack"]) EXPECT_EQ(row["difference_bytes"], 0);
}

// --- gate ------------------------------------------------------------------------------------

TEST(CliGateTest, PassesWhatIsNotWorseAndSaysSo) {
  const json answer = json_of({"gate", trace("leaky"), trace("leaky"), "--peak", "+0%"});
  EXPECT_EQ(answer["passed"], true);
  ASSERT_EQ(answer["checks"].size(), 2U);
  EXPECT_EQ(answer["checks"][0], (json{{"name", "peak requested"},
                                       {"unit", "bytes"},
                                       {"base", 848 * kMiB},
                                       {"new", 848 * kMiB},
                                       {"allowed", 848 * kMiB},
                                       {"passed", true}}));
}

TEST(CliGateTest, ExitsWithNoWhenSomethingIsWorse) {
  const json answer = json_of({"gate", trace("leaky"), trace("oom.1")}, kNo);
  EXPECT_EQ(answer["passed"], false);
  ASSERT_EQ(answer["checks"].size(), 3U) << "without limits, the usual ones are meant";
  EXPECT_EQ(answer["checks"][0]["passed"], false);
  EXPECT_EQ(answer["checks"][2]["unit"], "part");
}

TEST(CliGateTest, WritesMarkdownAndJUnitBesideItsAnswer) {
  const ScratchFolder folder;
  const CliOutcome outcome =
      run_cli({.arguments = {"gate", trace("leaky"), trace("oom.1"), "--junit",
                             folder.file("gate.xml"), "--markdown", folder.file("gate.md")}});
  EXPECT_EQ(outcome.exit_code, kNo);
  EXPECT_THAT(folder.contents("gate.xml"),
              AllOf(HasSubstr("<testsuite name=\"ashlar gate\" tests=\"3\" failures=\"2\""),
                    HasSubstr("<failure message=\"peak requested: ")));
  EXPECT_THAT(folder.contents("gate.md"), HasSubstr("| peak requested | 848.00 MiB |"));
  EXPECT_THAT(outcome.out, HasSubstr("Failed: 2 of 3 figures"));
}

TEST(CliGateTest, AFileThatCannotBeWrittenIsSaid) {
  const CliOutcome outcome = run_cli(
      {.arguments = {"gate", trace("leaky"), trace("leaky"), "--junit", "/nonexistent/gate.xml"}});
  EXPECT_EQ(outcome.exit_code, kNo);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("/nonexistent/gate.xml"));
}

TEST(CliGateTest, WrongLimitsAreWrongUsageBeforeAnythingIsRead) {
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"--peak", "much"}, {"--fragmentation", "+1MiB"}, {"--junit", "-"}}) {
    CliRun run = {.arguments = {"gate", "missing", "missing"}};
    run.arguments.insert(run.arguments.end(), wrong.begin(), wrong.end());
    const CliOutcome outcome = run_cli(run);
    EXPECT_EQ(outcome.exit_code, kInvalidArgument) << wrong[0];
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(wrong[0]));
  }
}

// --- report and replay -----------------------------------------------------------------------

// A block of 11.1 MiB in a segment of 12 MiB, of which too little is left to split off; no times.
std::string unsplit_run(const ScratchFolder& folder, const std::string& conf) {
  std::ofstream(folder.file("run.json"))
      << R"({"segments": [], "device_traces": [[)"
      << R"({"action": "segment_alloc", "addr": 1048576, "size": 12582912, "stream": 0},)"
      << R"({"action": "alloc", "addr": 1048576, "size": 11639193, "stream": 0}]],)"
      << R"("allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": ")" << conf << R"("}})";
  return folder.file("run.json");
}

TEST(CliReportTest, TheLeastIsTheSameForPeopleAndForPrograms) {
  // As requested; rounded up to multiples of 512 B, as in a packing, it is 387.00 MiB.
  const json graphs = json_of({"report", trace("graph_pools.1")});
  EXPECT_EQ(graphs["lower_bound_bytes"], graphs["peak_requested_bytes"]);
  EXPECT_THAT(run_cli({.arguments = {"report", trace("graph_pools.1")}}).out,
              HasSubstr("least      386.99 MiB"));
}

TEST(CliReportTest, AdviceOnRoundingFitsTheSettingsOfTheRecording) {
  const ScratchFolder folder;
  const auto advice = [&](const std::string& conf) {
    return json_of({"report", unsplit_run(folder, conf)})["advice"].dump();
  };
  EXPECT_THAT(advice(""), HasSubstr("not split off"));
  EXPECT_THAT(advice("roundup_power2_divisions:2"), HasSubstr("more roundup_power2_divisions"));
}

TEST(CliReportTest, ThePagedEngineIsNamedButNotAsASettingOfPyTorchs) {
  const json advice = json_of({"report", trace("graph_pools.1")})["advice"];
  EXPECT_THAT(advice.dump(), HasSubstr("Ashlar's paged engine"));
  for (const json& line : advice) {
    EXPECT_THAT(line.get<std::string>(), Not(HasSubstr("engine:paged")));
  }
}

// As an allocator of Ashlar's records it.
TEST(CliReportTest, ARunOfThePagedEngineIsToldItsOwnSettings) {
  const ScratchFolder folder;
  const json report = json_of({"report", unsplit_run(folder, "engine:paged,policy:fast")});
  EXPECT_THAT(report["alternatives"].dump(), HasSubstr("policy:lean"));
  EXPECT_THAT(report["advice"].dump(), Not(HasSubstr("PyTorch has no setting")));
  const json tuned = json_of({"tune", unsplit_run(folder, "engine:paged,policy:fast")});
  EXPECT_EQ(tuned["results"][0]["engine"], "paged");
  EXPECT_EQ(tuned["results"][0]["conf"], "policy:fast");
  EXPECT_THAT(tuned["paste"].get<std::string>(), HasSubstr("ASHLAR_ALLOC_CONF=\"engine:"));
}

TEST(CliReplayTest, ARunWithoutTimesHasNoShareOfIt) {
  const ScratchFolder folder;
  const std::string run = unsplit_run(folder, "");
  EXPECT_TRUE(json_of({"replay", run})["driver"]["share_of_run"].is_null());
  const CliOutcome outcome = run_cli({.arguments = {"replay", run}});
  EXPECT_THAT(outcome.out, HasSubstr("ms as modelled\n"));
  EXPECT_GT(json_of({"replay", trace("oom.1")})["driver"]["share_of_run"], 0.0);
}

TEST(CliReplayTest, ARunIsReplayedOnTheDriversPoolToo) {
  const json answer = json_of({"replay", trace("gnn_sampling.1"), "--engine", "async"});
  EXPECT_EQ(answer["engine"], "async");
  EXPECT_TRUE(answer["fidelity"].is_null());
  EXPECT_EQ(answer["ooms"], 0);
  EXPECT_EQ(answer["driver"]["calls"]["allocate_async"], answer["allocs"]);
  EXPECT_GT(answer["peak_reserved_bytes"], answer["peak_allocated_bytes"]);
}

TEST(CliReplayTest, WhatDoesNotFitBeforeTheFirstEntryIsSaid) {
  const ScratchFolder folder;
  std::ofstream(folder.file("late.json"))
      << R"({"segments": [{"device": 0, "address": 2097152, "total_size": 20971520, "stream": 0,)"
      << R"("segment_type": "large", "blocks": [{"address": 2097152, "size": 20971520,)"
      << R"("requested_size": 20971520, "state": "active_allocated"}]}],)"
      << R"("device_traces": [[{"action": "snapshot", "addr": 0, "size": 0, "stream": 0}]]})";
  const std::string run = folder.file("late.json");
  const json answer = json_of({"replay", run, "--capacity", "10MiB"}, kNo);
  EXPECT_EQ(answer["ooms"], 1);
  EXPECT_TRUE(answer["oom_entries"][0]["entry"].is_null());
  EXPECT_THAT(run_cli({.arguments = {"replay", run, "--cap", "10MiB"}}).out,
              HasSubstr("First failure, before the first entry: a segment of 20.00 MiB"));
  EXPECT_THAT(run_cli({.arguments = {"oom", run, "--cap", "10MiB"}}).out,
              HasSubstr("out of memory with what was there before the first entry"));
}

// --- all of them -----------------------------------------------------------------------------

TEST(CliLookingTest, EveryCommandThatReplaysSaysWhichSettingsItLeavesOut) {
  const ScratchFolder folder;
  const std::string run = unsplit_run(folder, "nonsense:1");
  for (const char* command : {"report", "replay", "tune", "oom"}) {
    const CliOutcome outcome = run_cli({.arguments = {command, run}});
    EXPECT_EQ(outcome.exit_code, kDone) << command;
    EXPECT_THAT(outcome.err, HasSubstr("settings of the recording are left out: nonsense"))
        << command;
  }
}

TEST(CliLookingTest, JsonIsAFlagThatTakesNoValue) {
  for (const char* command : {"bench", "config", "info", "symm-bench"}) {
    EXPECT_EQ(run_cli({.arguments = {command, "--json=false"}}).exit_code, kInvalidArgument)
        << command;
  }
  for (const char* command : {"leaks", "oom", "replay", "report", "tune"}) {
    EXPECT_EQ(run_cli({.arguments = {command, trace("leaky"), "--json=false"}}).exit_code,
              kInvalidArgument)
        << command;
  }
  for (const char* command : {"diff", "gate"}) {
    const std::vector<std::string> both = {command, trace("leaky"), trace("leaky"), "--json=false"};
    EXPECT_EQ(run_cli({.arguments = both}).exit_code, kInvalidArgument) << command;
  }
}

TEST(CliLookingTest, SymmBenchMeasuresEverythingBetweenItsRanks) {
  const CliOutcome outcome =
      run_cli({.arguments = {"symm-bench", "--ranks", "3", "--rounds", "1", "--json"}});
  EXPECT_EQ(outcome.exit_code, kDone) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\"ranks\": 3"));
  for (const char* name : {"barrier", "memcpy", "put", "get", "all-reduce"}) {
    EXPECT_THAT(outcome.out, HasSubstr("\"name\": \"" + std::string(name)));
  }
  EXPECT_EQ(run_cli({.arguments = {"symm-bench", "--ranks", "0"}}).exit_code, kInvalidArgument);
}

TEST(CliLookingTest, SymmBenchMeasuresTheNetworkToo) {
  const CliOutcome outcome =
      run_cli({.arguments = {"symm-bench", "--transport", "ucx", "--ranks", "2", "--rounds", "1"}});
  if (ASHLAR_HAS_UCX) {
    EXPECT_EQ(outcome.exit_code, kDone) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("2 ranks by ucx, microseconds"));
  } else {
    EXPECT_EQ(outcome.exit_code, kNo);
    EXPECT_THAT(outcome.err, HasSubstr("built without UCX"));
  }
  EXPECT_EQ(run_cli({.arguments = {"symm-bench", "--transport", "tcp"}}).exit_code,
            kInvalidArgument);
}

// Of this thread, and what it starts: the system refuses to fork. Threads, and what posix_spawn
// does, share memory, and are not concerned.
bool refuse_to_fork() {
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

TEST(CliLookingTest, SymmBenchSaysSoWhereItCannotFork) {
  bool is_refused = false;
  CliOutcome outcome;
  std::thread([&] {
    is_refused = refuse_to_fork();
    if (is_refused) outcome = run_cli({.arguments = {"symm-bench"}});
  }).join();
  if (!is_refused) GTEST_SKIP() << "NOT TESTED: no seccomp here, by which the system could refuse";
  EXPECT_EQ(outcome.exit_code, kNo);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("no process for rank 0 of 2 (fork: "));
}

TEST(CliLookingTest, HelpOnLeaksSaysWhatALeakIs) {
  EXPECT_THAT(run_cli({.arguments = {"leaks", "--help"}}).out,
              AllOf(HasSubstr("at least four parts"), Not(HasSubstr("every part"))));
}

TEST(CliLookingTest, UnreadableFilesAreNamedAndExitWithThree) {
  const ScratchFolder folder;
  std::ofstream(folder.file("broken")) << "\x80\x04]broken";
  for (const std::string& file : {folder.file("broken"), folder.file("missing")}) {
    for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
             {"leaks", file}, {"diff", trace("leaky"), file}, {"gate", file, trace("leaky")}}) {
      for (const bool as_json : {false, true}) {
        CliRun run = {.arguments = arguments};
        if (as_json) run.arguments.emplace_back("--json");
        const CliOutcome outcome = run_cli(run);
        EXPECT_EQ(outcome.exit_code, kUnreadableInput) << arguments[0];
        EXPECT_EQ(outcome.out, "");
        EXPECT_THAT(outcome.err, HasSubstr(file));
      }
    }
  }
}

TEST(CliLookingTest, WrongUsageExitsWithTwo) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"leaks"},
           {"leaks", trace("leaky"), "--device", "-1"},
           {"diff", trace("leaky")},
           {"diff", trace("leaky"), trace("leaky"), "--at", "noon"},
           {"gate", trace("leaky")}}) {
    const CliOutcome outcome = run_cli({.arguments = arguments});
    EXPECT_EQ(outcome.exit_code, kInvalidArgument) << arguments.back();
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err, "");
  }
}

TEST(CliLookingTest, ADeviceThatTheFileDoesNotKnowIsWrongUsage) {
  const CliOutcome outcome = run_cli({.arguments = {"leaks", trace("leaky"), "--device", "7"}});
  EXPECT_EQ(outcome.exit_code, kInvalidArgument);
  EXPECT_EQ(outcome.err,
            "ashlar: --device: the file has no data of device 7 (expected one of 0)\n");
}

TEST(CliLookingTest, ASnapshotWithoutATraceStillHasAnAnswer) {
  const ScratchFolder folder;
  std::ofstream(folder.file("empty.json")) << R"({"segments": [], "device_traces": [[]]})";
  EXPECT_EQ(json_of({"leaks", folder.file("empty.json")})["entries"], 0);
  EXPECT_EQ(json_of({"diff", folder.file("empty.json"), trace("leaky")})["new"]["count"], 121);
  const CliOutcome outcome = run_cli({.arguments = {"leaks", folder.file("empty.json")}});
  EXPECT_EQ(outcome.exit_code, kDone) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("no trace"));
}

}  // namespace
}  // namespace ashlar
