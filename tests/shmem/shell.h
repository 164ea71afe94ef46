// SPDX-License-Identifier: Apache-2.0
//
// Runs the test programs of this folder from a shell, without a launcher.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "base/text.h"

namespace ashlar {

inline std::string shmem_program(const std::string& name) {
  return text(ASHLAR_SHMEM_PROGRAMS, "/shmem_", name);
}

// Returns the shell's exit status, or -1 if a signal ended it.
inline int run_in_shell(const std::string& commands) {
  const int status = std::system(commands.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace ashlar
