// SPDX-License-Identifier: Apache-2.0
//
// The interface of the command line: exit codes, output streams, JSON, and error messages. Every
// test runs the real tool.
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "ashlar/unique_fd.h"
#include "cli/cli_json.h"

namespace ashlar {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

const CliRun kEightLargeDevices = {
    .arguments = {"info", "--json"},
    .environment = {{"ASHLAR_SIM_DEVICES", "8"}, {"ASHLAR_SIM_CAPACITY", "141GiB"}},
};

TEST(CliInfoTest, JsonListsEightDevicesOfRequestedCapacity) {
  const CliOutcome outcome = run_cli(kEightLargeDevices);
  ASSERT_EQ(outcome.exit_code, kExitSuccess) << outcome.err;
  const Json answer = Json::parse(outcome.out);
  ASSERT_EQ(answer["devices"].size(), 8U);
  std::set<std::string> uuids;
  for (size_t i = 0; i < 8; ++i) {
    const Json& device = answer["devices"][i];
    EXPECT_EQ(device["backend"], "sim");
    EXPECT_EQ(device["index"], i);
    EXPECT_EQ(device["capacity_bytes"], 151397597184);
    EXPECT_EQ(device["free_bytes"], 151397597184);
    EXPECT_THAT(device["uuid"].get<std::string>(),
                MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
    uuids.insert(device["uuid"]);
  }
  EXPECT_EQ(uuids.size(), 8U) << "two devices have the same UUID";
}

TEST(CliInfoTest, EightLargeDevicesUseLessThan100MiBOfHostMemory) {
#if defined(ASHLAR_TEST_SANITIZED)
  GTEST_SKIP() << "SKIPPED: a sanitizer's own memory counts as resident; run preset release";
#endif
  const CliOutcome outcome = run_cli(kEightLargeDevices);
  ASSERT_EQ(outcome.exit_code, kExitSuccess) << outcome.err;
  EXPECT_GT(outcome.peak_resident_bytes, 0U);
  EXPECT_LT(outcome.peak_resident_bytes, size_t{100} << 20);
}

TEST(CliInfoTest, JsonPrintsExactlyOneObject) {
  const CliOutcome outcome = run_cli({.arguments = {"info", "--json"}});
  EXPECT_EQ(outcome.exit_code, kExitSuccess);
  EXPECT_EQ(outcome.err, "");
  const Json answer = Json::parse(outcome.out);
  EXPECT_TRUE(answer.is_object());
  EXPECT_EQ(answer["devices"].size(), 2U) << "the default machine has two devices";
  EXPECT_TRUE(answer["version"].is_string());
}

TEST(CliInfoTest, JsonGivesReasonForUnavailableBackEnds) {
  const Json answer = Json::parse(run_cli({.arguments = {"info", "--json"}}).out);
  ASSERT_EQ(answer["backends"].size(), 3U);
  std::set<std::string> names;
  for (const Json& backend : answer["backends"]) {
    names.insert(backend["name"]);
    EXPECT_EQ(backend["available"].get<bool>(), backend["reason"].is_null());
  }
  EXPECT_EQ(names, (std::set<std::string>{"cuda", "hip", "sim"}));
  EXPECT_EQ(answer["backends"][0],
            (Json{{"name", "sim"}, {"available", true}, {"reason", nullptr}}));
}

// A temporary folder in which the file name of a driver is a link to the C library.
class FolderWithDriver {
 public:
  explicit FolderWithDriver(const char* driver) {
    std::string pattern = (std::filesystem::temp_directory_path() / "ashlar_XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
    Dl_info c_library = {};
    EXPECT_NE(dladdr(dlsym(RTLD_NEXT, "gnu_get_libc_version"), &c_library), 0);
    std::filesystem::create_symlink(std::filesystem::canonical(c_library.dli_fname),
                                    path_ / driver);
  }
  ~FolderWithDriver() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(CliInfoTest, ReportsMissingFunctionsOfWrongLibrary) {
  const FolderWithDriver folder("libamdhip64.so");
  const CliOutcome outcome = run_cli(
      {.arguments = {"info", "--json"}, .environment = {{"LD_LIBRARY_PATH", folder.path()}}});
  ASSERT_EQ(outcome.exit_code, kExitSuccess) << outcome.err;
  const std::string reason = Json::parse(outcome.out)["backends"][2]["reason"];
  EXPECT_TRUE(reason.starts_with("libamdhip64.so has no hip")) << reason;
  EXPECT_LT(reason.size(), 200U) << "too long for one line: " << reason;
}

TEST(CliInfoTest, JsonDescribesDeviceCapabilities) {
  const Json answer = Json::parse(run_cli({.arguments = {"info", "--json"}}).out);
  const Json& device = answer["devices"][0];
  for (const char* capability :
       {"has_virtual_memory", "can_alias", "can_export_fd", "can_export_fabric",
        "can_export_imported", "can_share_allocations", "has_stream_ordered_pool", "has_capture",
        "checks_stream_ids"}) {
    EXPECT_TRUE(device[capability].is_boolean()) << capability;
  }
  EXPECT_EQ(device["alias_probe"], "works: simulated");
  EXPECT_EQ(device["granularity_bytes"], 2097152);
  EXPECT_FALSE(device["name"].get<std::string>().empty());
}

TEST(CliInfoTest, TextNamesDevicesBackEndsAndVariables) {
  const CliOutcome outcome =
      run_cli({.arguments = {"info"}, .environment = {{"ASHLAR_SIM_DEVICES", "3"}}});
  EXPECT_EQ(outcome.exit_code, kExitSuccess);
  EXPECT_EQ(outcome.err, "");
  for (const char* wanted : {"sim:0", "sim:2", "141.00 GiB", "cuda", "hip", "ASHLAR_SIM_DEVICES",
                             "ASHLAR_SIM_CAPACITY", "ASHLAR_SIM_SEED", "ASHLAR_SIM_BACKING"}) {
    EXPECT_THAT(outcome.out, HasSubstr(wanted));
  }
  EXPECT_THAT(outcome.out, Not(HasSubstr("sim:3")));
}

TEST(CliInfoTest, ListsDriverDevicesAndReasonForMissingDriver) {
  const CliOutcome outcome =
      run_cli({.arguments = {"info"},
               .environment = {{"ASHLAR_CUDA_DRIVER", ASHLAR_CUDA_STANDIN},
                               {"ASHLAR_HIP_DRIVER", "libashlar_no_such_driver.so"}}});
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << outcome.err;
  for (const char* wanted :
       {"cuda:0", "cuda:1", "Ashlar stand-in GPU", "no HIP driver: libashlar_no_such_driver.so"}) {
    EXPECT_THAT(outcome.out, HasSubstr(wanted));
  }
}

TEST(CliInfoTest, AcceptsSeedAndBookkeeping) {
  const CliOutcome outcome =
      run_cli({.arguments = {"info", "--json"},
               .environment = {{"ASHLAR_SIM_SEED", "1"}, {"ASHLAR_SIM_BACKING", "bookkeeping"}}});
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out)["devices"].size(), 2U);
}

TEST(CliInfoTest, AcceptsLargestMachine) {
  const CliOutcome outcome =
      run_cli({.arguments = {"info", "--json"},
               .environment = {{"ASHLAR_SIM_DEVICES", "64"}, {"ASHLAR_SIM_CAPACITY", "64TiB"}}});
  ASSERT_EQ(outcome.exit_code, kExitSuccess) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out)["devices"].size(), 64U);
}

struct InvalidVariable {
  const char* name;
  const char* value;
  const char* message;
};

class CliInvalidVariableTest : public ::testing::TestWithParam<InvalidVariable> {};

TEST_P(CliInvalidVariableTest, ExitsWithUsageErrorAndExpectedValue) {
  for (const char* command : {"info", "config", "demo"}) {
    const CliOutcome outcome =
        run_cli({.arguments = {command}, .environment = {{GetParam().name, GetParam().value}}});
    EXPECT_EQ(outcome.exit_code, kExitInvalidArgument);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err, std::string("ashlar: ") + GetParam().message + "\n");
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, CliInvalidVariableTest,
    ::testing::Values(
        InvalidVariable{
            "ASHLAR_SIM_CAPACITY", "12x",
            "ASHLAR_SIM_CAPACITY: \"12x\" is not a size (expected a number of bytes with "
            "an optional unit, such as 80GiB)"},
        InvalidVariable{"ASHLAR_SIM_DEVICES", "0",
                        "ASHLAR_SIM_DEVICES: \"0\" is not a number of devices (expected a whole "
                        "number from 1 to 64)"},
        InvalidVariable{"ASHLAR_SIM_SEED", "x",
                        "ASHLAR_SIM_SEED: \"x\" is not a seed (expected a whole number from 0 to "
                        "18446744073709551615)"},
        InvalidVariable{
            "ASHLAR_SIM_BACKING", "paper",
            "ASHLAR_SIM_BACKING: \"paper\" is not a kind of backing (expected memory or "
            "bookkeeping)"},
        InvalidVariable{"ASHLAR_SIM_DEVCES", "8",
                        "ASHLAR_SIM_DEVCES: no such variable; did you mean ASHLAR_SIM_DEVICES?"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(CliUsageTest, SuggestsNearestCommand) {
  const CliOutcome outcome = run_cli({.arguments = {"inof", "--json"}});
  EXPECT_EQ(outcome.exit_code, kExitInvalidArgument);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "ashlar: unknown command \"inof\"; did you mean info?\n");
}

TEST(CliUsageTest, ListsCommandsForUnknownCommand) {
  const CliOutcome outcome = run_cli({.arguments = {"frobnicate"}});
  EXPECT_EQ(outcome.exit_code, kExitInvalidArgument);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("\"frobnicate\""), HasSubstr("report, oom, leaks, annotate, view, "),
                    HasSubstr("ashlar --help")));
}

TEST(CliUsageTest, RejectsMissingCommand) {
  const CliOutcome outcome = run_cli({});
  EXPECT_EQ(outcome.exit_code, kExitInvalidArgument);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("ashlar --help"));
}

TEST(CliUsageTest, SuggestsNearestOption) {
  const CliOutcome outcome = run_cli({.arguments = {"info", "--jsn"}});
  EXPECT_EQ(outcome.exit_code, kExitInvalidArgument);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("--jsn"), HasSubstr("did you mean --json?")));
}

TEST(CliUsageTest, RejectsUnexpectedArgument) {
  for (const char* extra : {"again", "demo", "--no-such-option", "-x"}) {
    const CliOutcome outcome = run_cli({.arguments = {"info", extra}});
    EXPECT_EQ(outcome.exit_code, kExitInvalidArgument) << extra;
    EXPECT_EQ(outcome.out, "") << extra;
    EXPECT_THAT(outcome.err, HasSubstr(extra));
  }
}

TEST(CliUsageTest, RejectsOptionInsteadOfCommand) {
  const CliOutcome outcome = run_cli({.arguments = {"--json"}});
  EXPECT_EQ(outcome.exit_code, kExitInvalidArgument);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, StartsWith("ashlar: "));
}

TEST(CliHelpTest, VersionPrintsOneLine) {
  const CliOutcome outcome = run_cli({.arguments = {"--version"}});
  EXPECT_EQ(outcome.exit_code, kExitSuccess);
  EXPECT_THAT(outcome.out, MatchesRegex("ashlar [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  const Json answer = Json::parse(run_cli({.arguments = {"info", "--json"}}).out);
  EXPECT_EQ("ashlar " + answer["version"].get<std::string>() + "\n", outcome.out);
}

TEST(CliOutputTest, ClosedPipeIsNotAFailure) {
  for (const char* command : {"info", "config", "demo", "--help"}) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    UniqueFd reader(ends[0]);
    const UniqueFd writer(ends[1]);
    reader.reset();
    const CliOutcome outcome = run_cli_into(writer.get(), {.arguments = {command}});
    EXPECT_EQ(outcome.signal, 0) << command;
    EXPECT_EQ(outcome.exit_code, kExitSuccess) << command;
    EXPECT_EQ(outcome.err, "") << command;
  }
}

TEST(CliOutputTest, ReportsFullDisk) {
  const UniqueFd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full.valid());
  const CliOutcome outcome = run_cli_into(full.get(), {.arguments = {"info"}});
  EXPECT_EQ(outcome.exit_code, kExitFailure);
  EXPECT_EQ(outcome.err, "ashlar: cannot write the output: No space left on device\n");
}

TEST(CliOutputTest, ReportsClosedStandardOutput) {
  const CliOutcome outcome = run_cli_into(-1, {.arguments = {"info"}});
  EXPECT_EQ(outcome.exit_code, kExitFailure);
  EXPECT_EQ(outcome.err, "ashlar: cannot write the output: Bad file descriptor\n");
}

// Returns the output of the seeded workload, from its heading to the end.
std::string seeded_part(const std::string& out) {
  const size_t begin = out.find("The same workload with a seed");
  EXPECT_NE(begin, std::string::npos);
  return begin == std::string::npos ? "" : out.substr(begin);
}

TEST(CliDemoTest, RunsAllPartsAndPassesAllChecks) {
  const CliOutcome outcome = run_cli({.arguments = {"demo"}});
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char* wanted :
       {"One program, three allocators", "PyTorch, expandable_segments:True",
        "Ashlar, engine:paged", "Operations", "out of memory", "sim:1 reduce", "Checks",
        "modelled cost on an H200", "create", "seed 7", "All checks passed."}) {
    EXPECT_THAT(outcome.out, HasSubstr(wanted));
  }
  EXPECT_THAT(outcome.out, Not(HasSubstr("  NO ")));
}

TEST(CliDemoTest, StartsWithPlotOfAllocators) {
  const std::string out =
      run_cli({.arguments = {"demo"}, .environment = {{"LC_ALL", "C.UTF-8"}}}).out;
  const std::string allocators = out.substr(0, out.find("The simulated machine"));
  EXPECT_THAT(allocators, HasSubstr("█ requested   ─ PyTorch   • PyTorch, expandable   × Ashlar"));
  EXPECT_THAT(allocators, HasSubstr("yes  the paged engine"));
}

TEST(CliDemoTest, SeededPartIsReproducible) {
  const std::string once = seeded_part(run_cli({.arguments = {"demo"}}).out);
  EXPECT_EQ(seeded_part(run_cli({.arguments = {"demo"}}).out), once);
}

TEST(CliDemoTest, TakesSeedFromEnvironment) {
  const CliOutcome outcome =
      run_cli({.arguments = {"demo"}, .environment = {{"ASHLAR_SIM_SEED", "123"}}});
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << outcome.err;
  EXPECT_THAT(seeded_part(outcome.out), AllOf(HasSubstr("seed 123"), Not(HasSubstr("seed 7"))));
}

}  // namespace
}  // namespace ashlar
