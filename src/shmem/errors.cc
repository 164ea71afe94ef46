// SPDX-License-Identifier: Apache-2.0
//
// Prints errors and information, and ends the job.
#include "shmem/errors.h"

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "shmem/runtime.h"

namespace ashlar::shmem {

void abort_job(const std::string& message) noexcept {
  Runtime* runtime = Runtime::current();
  if (runtime == nullptr || !runtime->in_owner_process()) {
    std::fprintf(stderr, "shmem: %s\n", message.c_str());
    terminate_job(1);
  }
  // If another PE has terminated the job, this error is a consequence and is not reported.
  if (const std::optional<int> status = runtime->exit_status(); status) {
    std::fflush(nullptr);
    std::_Exit(*status);
  }
  std::fprintf(stderr, "shmem: PE %d: %s\n", runtime->my_pe(), message.c_str());
  terminate_job(1);
}

void print_information(const std::string& lines) noexcept {
  std::fputs(lines.c_str(), stdout);
  std::fflush(stdout);
}

void print_debug_line(const std::string& line) noexcept {
  std::fprintf(stderr, "shmem: %s\n", line.c_str());
}

// Skips destructors, because other threads of the program may still be running. A forked child
// exits without terminating the job.
void terminate_job(int status) noexcept {
  Runtime* runtime = Runtime::current();
  if (runtime != nullptr && runtime->in_owner_process()) runtime->set_exit_status(status);
  std::fflush(nullptr);
  std::_Exit(status);
}

}  // namespace ashlar::shmem
