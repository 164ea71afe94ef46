// SPDX-License-Identifier: Apache-2.0
//
// Assigns cores greedily, and reads the limit of control groups.
#include "shmem/core_assignment.h"

#include <algorithm>
#include <cstdint>
#include <fstream>

namespace ashlar::shmem {

// Assigns a core to the smallest mask first: a process with few permitted cores has the fewest
// alternatives.
bool can_assign_cores(std::vector<cpu_set_t> affinities) {
  std::ranges::sort(affinities, {}, [](const cpu_set_t& each) { return CPU_COUNT(&each); });
  cpu_set_t assigned;
  CPU_ZERO(&assigned);
  for (const cpu_set_t& each : affinities) {
    size_t core = 0;
    while (core < CPU_SETSIZE && (!CPU_ISSET(core, &each) || CPU_ISSET(core, &assigned))) ++core;
    if (core == CPU_SETSIZE) return false;
    CPU_SET(core, &assigned);
  }
  return true;
}

// In a container, the root of the mounted hierarchy is the container's control group. The file
// holds the quota and the period in microseconds, such as "150000 100000" or "max 100000".
size_t core_limit_of_container() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  uint64_t permitted = 0;
  uint64_t period = 0;
  if (!(file >> permitted >> period) || period == 0) return SIZE_MAX;
  return permitted / period;
}

}  // namespace ashlar::shmem
