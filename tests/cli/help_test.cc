// SPDX-License-Identifier: Apache-2.0
//
// Help, man page, shell completion and colours. Every test runs the real tool. Scripts are checked
// with bash, and the man page with man, where these programs are installed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "ashlar/unique_fd.h"
#include "cli/run_cli.h"

namespace ashlar {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

const std::vector<std::string> kCommands = {
    "report", "oom",  "leaks", "annotate",   "view", "whatif",    "tune",
    "replay", "diff", "gate",  "export",     "top",  "info",      "config",
    "bench",  "demo", "run",   "symm-bench", "help", "completion"};

std::string output_of(const std::vector<std::string>& arguments) {
  const CliOutcome outcome = run_cli({.arguments = arguments});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return outcome.out;
}

// Runs a shell command with `input` in the file $FILE. Returns its output, including stderr.
std::string run_shell(const std::string& command, const std::string& input) {
  std::string path = (std::filesystem::temp_directory_path() / "ashlar_XXXXXX").string();
  const UniqueFd file(mkstemp(path.data()));
  std::ofstream(path) << input;
  const std::string line = "FILE=" + path + "; { " + command + "; } 2>&1";
  FILE* pipe = popen(("exec bash -c '" + line + "'").c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer{};
  for (size_t count = 0; (count = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    output.append(buffer.data(), count);
  }
  pclose(pipe);
  std::filesystem::remove(path);
  return output;
}

TEST(CliHelpTest, ListsCommandsTopicsAndExitCodes) {
  for (const char* option : {"--help", "-h", "help"}) {
    const std::string out = output_of({option});
    for (const std::string& command : kCommands) EXPECT_THAT(out, HasSubstr("  " + command + " "));
    EXPECT_THAT(out, AllOf(HasSubstr("ashlar help environment"), HasSubstr("Exit code: 0")));
    EXPECT_THAT(out, Not(HasSubstr("ASHLAR_SIM_DEVICES")));
  }
}

TEST(CliHelpTest, EnvironmentTopicListsVariables) {
  EXPECT_THAT(output_of({"help", "environment"}),
              AllOf(HasSubstr("ASHLAR_SIM_DEVICES"), HasSubstr("141GiB"),
                    HasSubstr("ASHLAR_ALLOC_CONF"), HasSubstr("PYTORCH_CUDA_ALLOC_CONF")));
}

TEST(CliHelpTest, HelpCommandEqualsHelpOption) {
  for (const std::string& command : kCommands) {
    const std::string out = output_of({"help", command});
    EXPECT_EQ(out, output_of({command, "--help"}));
    EXPECT_THAT(out, HasSubstr("Usage: ashlar " + command + " [OPTIONS]"));
    EXPECT_THAT(out, Not(HasSubstr("PYTORCH_CUDA_ALLOC_CONF"))) << command;
  }
}

TEST(CliHelpTest, FitsOneScreen) {
  std::vector<std::vector<std::string>> all = {{"help"}};
  for (const std::string& command : kCommands) all.push_back({"help", command});
  for (const std::vector<std::string>& arguments : all) {
    std::istringstream lines(output_of(arguments));
    size_t line_count = 0;
    for (std::string line; std::getline(lines, line); ++line_count) {
      EXPECT_LE(line.size(), 80U) << arguments.back() << ": " << line;
      EXPECT_THAT(line, Not(HasSubstr(" TEXT "))) << arguments.back();
    }
    EXPECT_LE(line_count, 40U) << arguments.back();
  }
}

TEST(CliHelpTest, SuggestsNearestTopic) {
  const CliOutcome outcome = run_cli({.arguments = {"help", "enviroment"}});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, "ashlar: help: unknown topic \"enviroment\"; did you mean environment?\n");
}

TEST(CliHelpTest, IgnoresInvalidVariables) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--help"}, {"help", "environment"}}) {
    const CliRun run = {.arguments = arguments, .environment = {{"ASHLAR_SIM_DEVICES", "none"}}};
    EXPECT_EQ(run_cli(run).exit_code, 0);
  }
}

TEST(CliManPageTest, DocumentsCommandsOptionsAndVariables) {
  const std::string page = output_of({"help", "--man"});
  EXPECT_THAT(page, StartsWith(".TH ASHLAR 1"));
  EXPECT_THAT(page, AllOf(HasSubstr(".SS \"ashlar report [OPTIONS] FILE\""),
                          HasSubstr("\\-\\-min\\-capacity"), HasSubstr("ASHLAR_SIM_DEVICES"),
                          HasSubstr(".SH \"EXIT STATUS\"")));
}

TEST(CliManPageTest, HasNoRoffWarnings) {
  if (run_shell("command -v man", "").empty()) GTEST_SKIP() << "SKIPPED: man is not installed";
  EXPECT_THAT(run_shell("LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l -Tutf8 -Z $FILE >/dev/null",
                        output_of({"help", "--man"})),
              IsEmpty());
}

// Sources the script and returns the completions of word `index` of `words`, one per line.
std::string complete_in_bash(const std::string& words, int index) {
  return run_shell("source $FILE; COMP_WORDS=(" + words + "); COMP_CWORD=" + std::to_string(index) +
                       "; _ashlar; printf \"%s\\n\" \"${COMPREPLY[@]}\"",
                   output_of({"completion", "bash"}));
}

TEST(CliCompletionTest, BashScriptIsValid) {
  EXPECT_THAT(run_shell("bash -n $FILE", output_of({"completion", "bash"})), IsEmpty());
}

TEST(CliCompletionTest, BashCompletesCommandsOptionsAndChoices) {
  EXPECT_EQ(complete_in_bash("ashlar re", 1), "report\nreplay\n");
  EXPECT_EQ(complete_in_bash("ashlar tune --j", 2), "--jobs\n--json\n");
  EXPECT_EQ(complete_in_bash("ashlar diff --at p", 3), "peak\n");
  EXPECT_EQ(complete_in_bash("ashlar completion z", 2), "zsh\n");
  EXPECT_THAT(complete_in_bash("ashlar report /et", 2), HasSubstr("/etc"));
}

TEST(CliCompletionTest, ZshAndFishListCommandsOptionsAndChoices) {
  const std::string zsh = output_of({"completion", "zsh"});
  EXPECT_THAT(zsh, AllOf(StartsWith("#compdef ashlar\n"), HasSubstr("'report:"), HasSubstr("--at["),
                         HasSubstr("(end peak)")));
  const std::string fish = output_of({"completion", "fish"});
  EXPECT_THAT(fish, AllOf(HasSubstr("-a report -d "), HasSubstr(" -l at -x -a 'end peak'"),
                          HasSubstr(" -s o -l output -r -F")));
}

TEST(CliCompletionTest, RejectsUnknownShell) {
  EXPECT_EQ(run_cli({.arguments = {"completion", "tcsh"}}).exit_code, 2);
}

// Runs `ashlar --help` with a terminal as standard output.
std::string output_on_terminal(const std::map<std::string, std::string>& environment) {
  int leader = -1;
  int follower = -1;
  EXPECT_EQ(openpty(&leader, &follower, nullptr, nullptr, nullptr), 0);
  const UniqueFd reader(leader);
  UniqueFd terminal(follower);
  EXPECT_EQ(
      run_cli_into(terminal.get(), {.arguments = {"--help"}, .environment = environment}).exit_code,
      0);
  // Reads in a loop, because a read returns at most one line or one buffer of the terminal.
  std::string output;
  for (int waiting = 0; ioctl(reader.get(), FIONREAD, &waiting) == 0 && waiting > 0;) {
    std::string part(static_cast<size_t>(waiting), '\0');
    const ssize_t count = read(reader.get(), part.data(), part.size());
    if (count <= 0) break;
    output.append(part, 0, static_cast<size_t>(count));
  }
  return output;
}

TEST(CliColorTest, ColorsOnlyOnTerminalsWithoutNoColor) {
  EXPECT_THAT(output_on_terminal({{"TERM", "xterm"}, {"NO_COLOR", ""}}), HasSubstr("\x1b[1m"));
  EXPECT_THAT(output_on_terminal({{"TERM", "xterm"}, {"NO_COLOR", "1"}}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(output_on_terminal({{"TERM", "dumb"}, {"NO_COLOR", ""}}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(run_cli({.arguments = {"--help"}, .environment = {{"TERM", "xterm"}}}).out,
              Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace ashlar
