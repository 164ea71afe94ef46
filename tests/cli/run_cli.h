// SPDX-License-Identifier: Apache-2.0
//
// Runs the real command line tool as a process, like a shell.
#pragma once

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
  int signal = 0;                      // sent after signal_delay_ms; 0: none
  int signal_delay_ms = 0;
};

struct CliOutcome {
  int exit_code = -1;  // -1 if a signal ended the tool
  int signal = 0;      // 0 if the tool exited normally
  std::string out;
  std::string err;
  size_t peak_resident_bytes = 0;
};

// Runs the tool to its end. Output goes to files, so that it cannot block on a full pipe. A tool
// that does not end within a minute after a signal is killed with SIGKILL.
CliOutcome run_cli(const CliRun& run);

// Like run_cli() with the given standard output; `out` stays empty. A negative descriptor closes
// standard output.
CliOutcome run_cli_into(int standard_output, const CliRun& run);

}  // namespace ashlar
