// SPDX-License-Identifier: Apache-2.0
//
// Runs the real command line tool as a process, like a shell.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace ashlar {

struct CliRun {
  std::vector<std::string> arguments = {};
  // Variables that are added to the test's environment, from which ASHLAR_* and PYTORCH_* variables
  // are removed.
  std::map<std::string, std::string> environment = {};
  std::string folder = {};  // working directory; empty selects the test's
};

struct CliOutcome {
  int exit_code = -1;  // -1 if a signal ended the tool
  int signal = 0;      // 0 if the tool exited normally
  std::string out;
  std::string err;
  size_t peak_resident_bytes = 0;
};

// Runs the tool to its end. Output goes to files, so that the tool cannot block on a full pipe.
CliOutcome run_cli(const CliRun& run);

// Like run_cli() with the given standard output; `out` stays empty. A negative descriptor closes
// standard output.
CliOutcome run_cli_into(int standard_output, const CliRun& run);

}  // namespace ashlar
