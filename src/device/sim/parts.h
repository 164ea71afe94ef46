// SPDX-License-Identifier: Apache-2.0
//
// What a simulated machine is made of. Members are destroyed from the last to the first: streams
// go before everything their work may touch, mappings before the memory they keep.
#pragma once

#include <unistd.h>

#include <atomic>
#include <memory>
#include <vector>

#include "ashlar/sim.h"
#include "device/sim/address_space.h"
#include "device/sim/captures.h"
#include "device/sim/events.h"
#include "device/sim/fabric.h"
#include "device/sim/faults.h"
#include "device/sim/host_memory.h"
#include "device/sim/own_exports.h"
#include "device/sim/physical_memory.h"
#include "device/sim/streams.h"

namespace ashlar::sim {

class SimDevice;

struct Machine::Parts {
  Parts(const Options& chosen, size_t max_mappings, std::unique_ptr<Clock> made_clock);
  ~Parts();

  const Options options;
  const pid_t process = ::getpid();        // whose machine it is; not a forked child's
  const std::unique_ptr<Clock> own_clock;  // null when one was injected
  Clock& clock;
  Faults faults;
  std::vector<std::unique_ptr<PhysicalMemory>> memories;  // by device
  OwnExports own_exports;
  AddressSpace addresses;
  HostMemory host_memory;
  Fabric fabric;
  Events events;
  Captures captures;
  std::atomic<uint64_t> last_extent{0};  // relaxed: only uniqueness matters
  std::vector<std::unique_ptr<SimDevice>> devices;
  Streams streams;
};

}  // namespace ashlar::sim
