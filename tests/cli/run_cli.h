// SPDX-License-Identifier: Apache-2.0
//
// Runs the real command line tool as a process, like a shell.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ASHLAR_TEST_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ASHLAR_TEST_SANITIZED 1
#endif

namespace ashlar {

struct CliRun {
  std::vector<std::string> arguments = {};
  // Variables that are added to the test's environment, from which ASHLAR_* and PYTORCH_* variables
  // are removed.
  std::map<std::string, std::string> environment = {};
  std::string folder = {};             // working directory; empty: the test's
  size_t max_address_space_bytes = 0;  // RLIMIT_AS; 0: unlimited
  size_t max_cpu_seconds = 0;          // RLIMIT_CPU; SIGXCPU ends the tool. 0: unlimited
  int signal = 0;                      // sent after both delays; 0: none
  int signal_delay_ms = 0;
  double signal_after_cpu_ms = 0;  // processor time that the tool has used when the signal arrives
};

struct CliOutcome {
  int exit_code = -1;  // -1 if a signal ended the tool
  int signal = 0;      // 0 if the tool exited normally
  std::string out;
  std::string err;
  size_t peak_resident_bytes = 0;
  double cpu_ms = 0;               // processor time
  double cpu_ms_after_signal = 0;  // the part of it that was used after the signal was sent
};

// Runs the tool to its end. Output goes to files, so that it cannot block on a full pipe. A tool
// that does not end within a minute after a signal is killed with SIGKILL.
CliOutcome run_cli(const CliRun& run);

// Like run_cli() with the given standard output; `out` stays empty. A negative descriptor closes
// standard output.
CliOutcome run_cli_into(int standard_output, const CliRun& run);

// Waits until a child has used this much processor time, or has ended.
void wait_for_cpu_ms(pid_t child, double cpu_ms);

// Sends the signal while the child is stopped. Returns the processor time that the child has used
// before, in milliseconds. How long the child then runs depends on the load of the machine, but its
// processor time does not.
double send_signal_stopped(pid_t child, int signal);

double cpu_ms_of(const rusage& usage);

}  // namespace ashlar
