// SPDX-License-Identifier: Apache-2.0
//
// The processes behind `ashlar symm-run`: started together, ended together.
#pragma once

#include <string>
#include <vector>

#include "ashlar/status.h"
#include "config/environment.h"

namespace ashlar {

struct PeOptions {
  int pe_count = 2;
  int machine_count = 1;
  std::string heap{};                  // empty: what the environment says
  std::vector<std::string> command{};  // the program, and its arguments
};

struct PeEnd {
  int status = 0;          // for the shell
  std::string sentence{};  // who ended the others, and how; empty: nobody
};

// Returns when all have ended. Takes signals for the whole process meanwhile; to be called while
// there are no threads.
Result<PeEnd> run_pes(const PeOptions& options, const Environment& environment);

}  // namespace ashlar
