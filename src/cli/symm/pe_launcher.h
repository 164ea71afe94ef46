// SPDX-License-Identifier: Apache-2.0
//
// Starts and supervises the processes of `ashlar run`.
#pragma once

#include <string>
#include <vector>

#include "ashlar/status.h"
#include "config/environment.h"

namespace ashlar {

struct PeOptions {
  int pe_count = 2;
  int machine_count = 1;
  std::string heap{};  // heap size per PE; empty: SHMEM_SYMMETRIC_SIZE in the environment
  std::vector<std::string> command{};  // the program and its arguments
};

struct PeResult {
  int status = 0;         // exit status of the command
  std::string message{};  // which PE failed and how; empty: nothing to report
};

// Runs the PEs and returns when all have ended. Forwards termination and user signals to the PEs.
// Blocks these signals and SIGCHLD until the process ends. REQUIRES: no other threads.
Result<PeResult> run_pes(const PeOptions& options, const Environment& environment);

}  // namespace ashlar
