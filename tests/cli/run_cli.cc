// SPDX-License-Identifier: Apache-2.0
//
// Uses posix_spawn(3), anonymous files for the streams, and wait4(2) for exit status and memory
// use.
#include "cli/run_cli.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ashlar/unique_fd.h"

namespace ashlar {
namespace {

UniqueFd anonymous_file() {
  UniqueFd file(memfd_create("run_cli", MFD_CLOEXEC));
  EXPECT_TRUE(file.valid());
  return file;
}

std::string contents(const UniqueFd& file) {
  std::string all(static_cast<size_t>(lseek(file.get(), 0, SEEK_END)), '\0');
  EXPECT_EQ(pread(file.get(), all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
  return all;
}

// Returns the test's environment without the variables that Ashlar reads, plus those of `run`.
std::vector<std::string> environment_of(const CliRun& run) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    const bool is_replaced = run.environment.count(variable.substr(0, variable.find('='))) > 0;
    const bool is_removed = variable.starts_with("ASHLAR_") || variable.starts_with("PYTORCH_");
    if (!is_replaced && !is_removed) entries.push_back(variable);
  }
  for (const auto& [name, value] : run.environment) entries.push_back(name + "=" + value);
  return entries;
}

// Returns a null-terminated array for posix_spawn(3), with pointers into `strings`.
std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& each : strings) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

CliOutcome run_cli_into(int standard_output, const CliRun& run) {
  std::vector<std::string> arguments = {ASHLAR_CLI_PATH};
  arguments.insert(arguments.end(), run.arguments.begin(), run.arguments.end());
  std::vector<std::string> environment = environment_of(run);
  const UniqueFd err = anonymous_file();

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (standard_output >= 0) {
    posix_spawn_file_actions_adddup2(&actions, standard_output, STDOUT_FILENO);
  } else {
    posix_spawn_file_actions_addclose(&actions, STDOUT_FILENO);
  }
  posix_spawn_file_actions_adddup2(&actions, err.get(), STDERR_FILENO);
  if (!run.folder.empty()) posix_spawn_file_actions_addchdir_np(&actions, run.folder.c_str());
  pid_t child = 0;
  const int error = posix_spawn(&child, ASHLAR_CLI_PATH, &actions, nullptr,
                                pointers_to(arguments).data(), pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  CliOutcome outcome;
  EXPECT_EQ(error, 0) << ASHLAR_CLI_PATH << " cannot be started";
  if (error != 0) return outcome;

  int status = 0;
  rusage usage = {};
  EXPECT_EQ(wait4(child, &status, 0, &usage), child);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  outcome.err = contents(err);
  outcome.peak_resident_bytes = static_cast<size_t>(usage.ru_maxrss) * 1024;
  return outcome;
}

CliOutcome run_cli(const CliRun& run) {
  const UniqueFd out = anonymous_file();
  CliOutcome outcome = run_cli_into(out.get(), run);
  outcome.out = contents(out);
  return outcome;
}

}  // namespace ashlar
