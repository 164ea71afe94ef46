// SPDX-License-Identifier: Apache-2.0
//
// Joins the job that the environment describes.
#include <utility>

#include "api/unwrap.h"
#include "ashlar/launch.h"
#include "ashlar/symmetric.h"
#include "config/launch_settings.h"
#include "symm/launch/find_job.h"

namespace ashlar::symm {

Result<Job> try_job_from_environment(Deadline deadline) {
  const Result<LaunchSettings> settings = launch_settings_of_process();
  if (!settings.ok()) return settings.status();
  return find_job(*settings, deadline);
}

Group Group::join_from_environment(const Heap& heap, GroupOptions options) {
  Job job = unwrap(try_job_from_environment(Deadline::of_timeout(options.timeout)));
  options.rank = job.rank;
  options.world_size = job.world_size;
  options.job = job.name;
  return join(heap, std::move(job.store), options);
}

}  // namespace ashlar::symm
