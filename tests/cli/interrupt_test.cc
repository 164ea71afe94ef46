// SPDX-License-Identifier: Apache-2.0
//
// SIGINT ends every command that reads a file or works for long.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "cli/cli_json.h"
#include "unit/format/pickle_text.h"

namespace ashlar {
namespace {

constexpr int kExitInterrupted = 128 + SIGINT;
// Limit on the processor time of a command after SIGINT. The wall time also depends on the load of
// the machine.
constexpr double kMaxCpuMsAfterSignal = 1000;

class CliInterruptTest : public ::testing::Test {
 protected:
  CliInterruptTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ashlar_XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  ~CliInterruptTest() override { std::filesystem::remove_all(folder_); }

  // Creates a named pipe that no program writes to.
  std::string make_pipe() const {
    const std::string path = folder_ / "pipe";
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    return path;
  }

  // Writes a recording whose analysis takes minutes.
  std::string make_large_file() const {
    using namespace pickle;
    std::string entries;
    for (int32_t i = 0; i < 300'000; ++i) {
      entries += dict({{"action", string("alloc")},
                       {"addr", large_number(uint64_t{0x7f0000000000} + 512 * uint64_t(i))},
                       {"size", number(1 + i % 512)}});
    }
    const std::string path = folder_ / "large";
    std::ofstream(path, std::ios::binary)
        << whole(dict({{"device_traces", list({"](" + entries + "e"})}}));
    return path;
  }

  static void expect_interrupted(const CliRun& run) {
    SCOPED_TRACE(run.arguments[0] + " after " + std::to_string(run.signal_delay_ms) + " ms and " +
                 std::to_string(run.signal_after_cpu_ms) + " ms of processor time");
    const CliOutcome outcome = run_cli(run);
    if (outcome.err.find("this build has no viewer page") != std::string::npos) {
      std::cout << "SKIPPED: " << run.arguments[0] << " " << run.arguments[1] << ": "
                << outcome.err;
      return;
    }
    const bool is_interrupted = outcome.signal == SIGINT || outcome.exit_code == kExitInterrupted;
    EXPECT_TRUE(is_interrupted) << "exit code " << outcome.exit_code << ", signal "
                                << outcome.signal << "\n"
                                << outcome.err;
    EXPECT_LT(outcome.cpu_ms_after_signal, kMaxCpuMsAfterSignal);
  }

  std::filesystem::path folder_;
};

TEST_F(CliInterruptTest, EndsCommandsThatWaitForAPipe) {
  const std::string file = make_pipe();
  const std::vector<std::vector<std::string>> commands = {
      {"report", file},
      {"oom", file},
      {"leaks", file},
      {"tune", file},
      {"replay", file},
      {"annotate", file},
      {"whatif", file, "--keep-grads"},
      {"diff", file, file},
      {"gate", file, file},
      {"export", file, "--to", "json", "-o", "/dev/null"},
      {"view", "--no-browser", file},
      {"view", "-o", "/dev/null", file},
  };
  for (const std::vector<std::string>& command : commands) {
    expect_interrupted({.arguments = command, .signal = SIGINT, .signal_delay_ms = 300});
  }
}

// The signal arrives while a command starts, reads or computes.
TEST_F(CliInterruptTest, EndsCommandsWithinASecondOfProcessorTime) {
  const std::string file = make_large_file();
  const std::vector<std::vector<std::string>> commands = {
      {"report", file},
      {"oom", file, "--capacity", "64MiB"},
      {"leaks", file},
      {"tune", file, "--min-capacity"},
      {"replay", file},
      {"annotate", file},
      {"whatif", file, "--keep-grads", "--conf", "expandable_segments:True"},
      {"diff", file, file},
      {"gate", file, file},
      {"export", file, "--to", "json", "-o", "/dev/null"},
      {"view", "--no-browser", file},
      {"view", "-o", "/dev/null", file},
  };
  for (const std::vector<std::string>& command : commands) {
    for (const double cpu_ms : {5, 100}) {
      expect_interrupted({.arguments = command, .signal = SIGINT, .signal_after_cpu_ms = cpu_ms});
    }
  }
  expect_interrupted({.arguments = {"tune", file, "--min-capacity"},
                      .signal = SIGINT,
                      .signal_after_cpu_ms = 2000});
}

TEST_F(CliInterruptTest, EndsLaunchedPrograms) {
  expect_interrupted(
      {.arguments = {"run", "-n", "2", "sleep", "60"}, .signal = SIGINT, .signal_delay_ms = 500});
}

TEST_F(CliInterruptTest, EndsBenchmarksAndRemovesTheirFolders) {
  expect_interrupted({.arguments = {"bench"}, .signal = SIGINT, .signal_delay_ms = 300});
  for (const int signal : {SIGINT, SIGKILL}) {
    const CliOutcome outcome = run_cli({.arguments = {"symm-bench", "--rounds", "1000"},
                                        .environment = {{"TMPDIR", folder_}},
                                        .signal = signal,
                                        .signal_delay_ms = 500});
    EXPECT_EQ(outcome.signal, signal) << outcome.err;
    // A separate process removes the folder.
    for (int i = 0; i < 3000 && !std::filesystem::is_empty(folder_); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_TRUE(std::filesystem::is_empty(folder_)) << "after signal " << signal;
  }
}

}  // namespace
}  // namespace ashlar
