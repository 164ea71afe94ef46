// SPDX-License-Identifier: Apache-2.0
//
// The allocator on a simulated device: memory for one stream, used by a second, freed while that
// one may still be working on it. Quoted in docs/guide/allocator.md.
#include <cstdio>

#include "ashlar/allocator.h"
#include "ashlar/sim.h"

using namespace ashlar;

int main() {
  const auto machine = sim::Machine::create({});
  if (!machine.ok()) return 1;
  Device& device = (*machine)->device(DeviceIndex(0));
  const StreamId compute = *device.create_stream();
  const StreamId side = *device.create_stream();

  Allocator allocator(device);
  {
    Buffer buffer = allocator.allocate(64 << 20, compute);
    if (!device.fill(buffer.address(), 1, buffer.bytes(), compute).ok()) return 1;
    const EventId filled = *device.create_event();
    if (!device.record_event(filled, compute).ok()) return 1;
    if (!device.wait_event(side, filled).ok()) return 1;
    if (!device.fill(buffer.address(), 2, buffer.bytes(), side).ok()) return 1;
    buffer.record_stream(side);  // not reused before `side` has got here
  }
  const AllocatorStats stats = allocator.stats();
  std::printf("allocated %lld B, reserved %lld B\n",
              static_cast<long long>(stats.allocated_bytes.all.current),
              static_cast<long long>(stats.reserved_bytes.all.current));
  allocator.trim();  // waits for `side`, and gives the memory back
  return device.memory_stats()->free_bytes == device.properties().capacity_bytes ? 0 : 1;
}
