// SPDX-License-Identifier: Apache-2.0
//
// Error handling. Most OpenSHMEM functions return no error codes: an error prints one line to
// standard error and terminates all PEs. Inside this library errors are exceptions; `c_call`
// converts them at the C boundary.
#pragma once

#include <exception>
#include <string>

#include "ashlar/errors.h"
#include "base/text.h"

namespace ashlar::shmem {

// Prints `message` and terminates the job with status 1. If another PE has already terminated the
// job, prints nothing and exits with the status that the other PE set.
[[noreturn]] void abort_job(const std::string& message) noexcept;
// Sets the exit status of the job and exits this PE with it. The other PEs exit when one of their
// calls fails because this PE is gone, or when their launcher ends them.
[[noreturn]] void terminate_job(int status) noexcept;

// Print the output that SHMEM_VERSION, SHMEM_INFO and SHMEM_DEBUG enable.
void print_information(const std::string& lines) noexcept;  // to standard output
void print_debug_line(const std::string& line) noexcept;    // to standard error

template <typename... Parts>
[[noreturn]] void throw_invalid_argument(const Parts&... parts) {
  throw InvalidArgument(Status::invalid_argument(text(parts...)));
}

// Throws if the status or result is an error. Returns the value of a result.
inline void check(const Status& status) {
  if (!status.ok()) throw Error(status);
}
template <typename T>
T check(Result<T> result) {
  check(result.status());
  return *std::move(result);
}

// Runs the body of the C function `name`. An exception aborts the job.
template <typename Body>
auto c_call(const char* name, const Body& body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const Error& error) {
    abort_job(std::string(name) + ": " + error.status().message());
  } catch (const std::exception& error) {
    abort_job(std::string(name) + ": " + error.what());
  }
}

}  // namespace ashlar::shmem
