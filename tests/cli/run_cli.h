// SPDX-License-Identifier: Apache-2.0
//
// Runs the real command line tool as a process of its own, as a user's shell would.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace ashlar {

struct CliRun {
  std::vector<std::string> arguments = {};
  // And nothing else that starts with ASHLAR_ or PYTORCH_.
  std::map<std::string, std::string> environment = {};
  std::string folder = {};  // to run in; empty: where the test runs
};

struct CliOutcome {
  int exit_code = -1;  // of a process that ended by itself
  int signal = 0;      // that ended it, if one did
  std::string out;
  std::string err;
  size_t peak_resident_bytes = 0;
};

// Waits for the end. The streams are files, so that no amount of output can block.
CliOutcome run_cli(const CliRun& run);

// The same, with standard output going where the caller says; `out` stays empty. A negative
// descriptor: standard output is closed.
CliOutcome run_cli_into(int standard_output, const CliRun& run);

}  // namespace ashlar
