// SPDX-License-Identifier: Apache-2.0
//
// Builds a sample status of a process without real allocators.
#pragma once

#include <string>
#include <vector>

#include "live/process_status.h"

namespace ashlar::live {

// Returns the status of two allocators, the first with special characters in all labels, and of a
// pinned allocator.
inline ProcessStatus hostile_process() {
  AllocatorStatus odd;
  odd.number = 3;
  odd.backend = "s\"i\\m\n";
  odd.device = 1;
  odd.device_name = "a \"GPU\"\\ of\nours } 1\n# EOF\xff\xed\xa0\x80";
  odd.engine = "paged";
  odd.options = "a:\"b\",c:\\";
  odd.capacity_bytes = size_t{1} << 40;
  odd.stats.reserved_bytes.all.increase(4096);
  odd.stats.allocation.all.increase(7);
  odd.stats.allocation.all.decrease(2);
  odd.stats.ooms = 2;
  odd.stats.pools[{1, 2}].allocated_bytes.increase(512);
  AllocatorStatus plain;
  plain.number = 4;
  plain.backend = "sim";
  plain.engine = "classic";
  plain.is_history_on = true;
  HostAllocatorStatus pinned;
  pinned.number = 5;
  pinned.backend = odd.backend;
  pinned.device = 1;
  pinned.device_name = odd.device_name;
  pinned.stats.allocated_bytes.increase(8192);
  pinned.stats.active_bytes.increase(4096);
  pinned.stats.pending_bytes.increase(1024);
  pinned.stats.graph_bytes.increase(512);
  pinned.stats.requested_bytes.increase(4000);
  pinned.stats.active_requests.increase(3);
  pinned.stats.active_requests.decrease(1);
  pinned.stats.host_allocs = 2;
  pinned.stats.host_frees = 1;
  pinned.stats.ooms = 6;
  ProcessStatus process;
  process.pid = 77;
  process.program = "odd \"program\"";
  process.version = "0.1.0";
  process.monitored_seconds = 12.5;
  process.problem = "the port was taken";
  process.allocators = {odd, plain};
  process.host_allocators = {pinned};
  return process;
}

}  // namespace ashlar::live
