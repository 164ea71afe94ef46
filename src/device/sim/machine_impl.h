// SPDX-License-Identifier: Apache-2.0
//
// The state of a simulated machine. The order of the members matters: they are destroyed in reverse
// order, so that streams stop before anything their work may access is destroyed, and mappings are
// destroyed before the memory they refer to.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "ashlar/sim.h"
#include "base/fork_guard.h"
#include "device/sim/address_space.h"
#include "device/sim/capture_table.h"
#include "device/sim/event_table.h"
#include "device/sim/fabric.h"
#include "device/sim/fault_injector.h"
#include "device/sim/physical_memory.h"
#include "device/sim/pinned_memory.h"
#include "device/sim/stream_table.h"

namespace ashlar::sim {

class SimDevice;

struct Machine::Impl {
  Impl(const Options& machine_options, size_t max_mappings, std::unique_ptr<Clock> made_clock);
  ~Impl();

  const Options options;
  const ForkGuard fork_guard;              // a forked child must not use the machine
  const std::unique_ptr<Clock> own_clock;  // null if Options::clock is set
  Clock& clock;
  FaultInjector faults;
  std::vector<std::unique_ptr<PhysicalMemory>> memories;  // indexed by device
  ExportTable exports;
  AddressSpace addresses;
  SimPinnedMemory pinned_memory;
  Fabric fabric;
  EventTable events;
  CaptureTable captures;
  std::atomic<uint64_t> last_extent{0};  // relaxed: only uniqueness matters
  std::vector<std::unique_ptr<SimDevice>> devices;
  StreamTable streams;
};

}  // namespace ashlar::sim
