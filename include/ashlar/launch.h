// SPDX-License-Identifier: Apache-2.0
//
// Finds out which rank of a job this process is, without configuration: under `ashlar run`, mpirun,
// prterun and srun, and in processes that were started by hand with a few variables. See
// docs/how-to/symmetric_launch.md.
//
// Errors: functions throw; their `try_` forms return a Result.
#pragma once

#include <memory>
#include <string>

#include "ashlar/deadline.h"
#include "ashlar/export.h"
#include "ashlar/status.h"
#include "ashlar/store.h"

namespace ashlar::symm {

struct Job {
  int rank = 0;
  int world_size = 1;
  std::string name = "job";
  // Shared by the ranks. Rank 0 may serve it: keep it until all ranks have left their groups.
  std::shared_ptr<Store> store{};
};

// Reads the variables that the launcher sets, and opens the store. Without a launcher and without
// variables, the job has one rank. Throws InvalidArgument if a variable is wrong, or several ranks
// have no store; TimeoutError if the store does not exist by the deadline; DeviceError if it cannot
// be opened.
//
// Every rank calls this function once. With PMIx, the function connects to the launcher, and
// disconnects before it returns.
ASHLAR_EXPORT Result<Job> try_job_from_environment(Deadline deadline);
inline Job job_from_environment(Deadline deadline) {
  return try_job_from_environment(deadline).value();
}

}  // namespace ashlar::symm
