// SPDX-License-Identifier: Apache-2.0
//
// Whether processes on one machine can each have a core of their own. Thread safe.
#pragma once

#include <sched.h>

#include <cstddef>
#include <vector>

namespace ashlar::shmem {

// Returns whether every process can use a core that no other process uses. `affinities` holds one
// affinity mask per process. May return false although such an assignment exists, if two masks
// overlap and neither includes the other.
bool can_assign_cores(std::vector<cpu_set_t> affinities);

// Returns the CPU quota of this process's container in cores, rounded down; SIZE_MAX without a
// quota, outside a container, or with control groups of version 1.
size_t core_limit_of_container();

}  // namespace ashlar::shmem
