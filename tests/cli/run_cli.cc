// SPDX-License-Identifier: Apache-2.0
//
// Uses posix_spawn(3), anonymous files for the streams, and wait4(2) for exit status and memory
// use.
#include "cli/run_cli.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <thread>

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

// Limits the address space of this process, and so of the child that it starts next.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(size_t bytes) {
    EXPECT_EQ(getrlimit(RLIMIT_AS, &before_), 0);
    rlimit limited = before_;
    if (bytes > 0) limited.rlim_cur = bytes;
    EXPECT_EQ(setrlimit(RLIMIT_AS, &limited), 0);
  }
  ~AddressSpaceLimit() { EXPECT_EQ(setrlimit(RLIMIT_AS, &before_), 0); }
  AddressSpaceLimit(const AddressSpaceLimit&) = delete;
  AddressSpaceLimit& operator=(const AddressSpaceLimit&) = delete;

 private:
  rlimit before_{};
};

bool has_ended(pid_t child) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == child;
}

// Returns 0 if the child has ended.
double cpu_ms_of_child(pid_t child) {
  clockid_t clock = 0;
  timespec used{};
  if (clock_getcpuclockid(child, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
  return double(used.tv_sec) * 1e3 + double(used.tv_nsec) / 1e6;
}

// Returns the processor time that the child had used when the signal was sent.
double send_signal(pid_t child, const CliRun& run) {
  constexpr int kTimeoutMs = 60'000;
  constexpr int kPollMs = 20;
  std::this_thread::sleep_for(std::chrono::milliseconds(run.signal_delay_ms));
  wait_for_cpu_ms(child, run.signal_after_cpu_ms);
  const double used_ms = send_signal_stopped(child, run.signal);
  for (int waited_ms = 0; waited_ms < kTimeoutMs && !has_ended(child); waited_ms += kPollMs) {
    std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
  }
  if (!has_ended(child)) kill(child, SIGKILL);
  return used_ms;
}

}  // namespace

void wait_for_cpu_ms(pid_t child, double cpu_ms) {
  while (!has_ended(child) && cpu_ms_of_child(child) < cpu_ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

double send_signal_stopped(pid_t child, int signal) {
  siginfo_t info{};
  kill(child, SIGSTOP);
  waitid(P_PID, static_cast<id_t>(child), &info, WSTOPPED | WEXITED | WNOWAIT);
  const double used_ms = cpu_ms_of_child(child);
  kill(child, signal);
  kill(child, SIGCONT);
  return used_ms;
}

double cpu_ms_of(const rusage& usage) {
  const auto ms = [](const timeval& time) {
    return double(time.tv_sec) * 1e3 + double(time.tv_usec) / 1e3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

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
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t default_signals;
  sigemptyset(&default_signals);
  sigaddset(&default_signals, SIGINT);  // ignored in tests that run in the background of a shell
  posix_spawnattr_setsigdefault(&attributes, &default_signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  int error = 0;
  {
    const AddressSpaceLimit limit(run.max_address_space_bytes);
    error = posix_spawn(&child, ASHLAR_CLI_PATH, &actions, &attributes,
                        pointers_to(arguments).data(), pointers_to(environment).data());
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  CliOutcome outcome;
  EXPECT_EQ(error, 0) << ASHLAR_CLI_PATH << " cannot be started";
  if (error != 0) return outcome;

  if (run.max_cpu_seconds > 0) {
    const rlimit most = {run.max_cpu_seconds, run.max_cpu_seconds + 1};
    EXPECT_EQ(prlimit(child, RLIMIT_CPU, &most, nullptr), 0);
  }
  const double cpu_ms_before_signal = run.signal != 0 ? send_signal(child, run) : 0;
  int status = 0;
  rusage usage = {};
  EXPECT_EQ(wait4(child, &status, 0, &usage), child);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  outcome.err = contents(err);
  outcome.peak_resident_bytes = static_cast<size_t>(usage.ru_maxrss) * 1024;
  outcome.cpu_ms = cpu_ms_of(usage);
  outcome.cpu_ms_after_signal = outcome.cpu_ms - cpu_ms_before_signal;
  return outcome;
}

CliOutcome run_cli(const CliRun& run) {
  const UniqueFd out = anonymous_file();
  CliOutcome outcome = run_cli_into(out.get(), run);
  outcome.out = contents(out);
  return outcome;
}

}  // namespace ashlar
