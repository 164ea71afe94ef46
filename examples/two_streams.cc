// SPDX-License-Identifier: Apache-2.0
//
// Quoted in docs/how-to/allocator.md: memory of one stream is used by a second stream, and freed
// while the second stream may still use it.
#include <cstdio>

#include "ashlar/ashlar.h"

using namespace ashlar;

int main() {
  const auto machine = sim::Machine::create();
  Device& device = machine->device(DeviceIndex(0));
  Stream compute(device);
  Stream side(device);

  Allocator allocator(device);
  {
    Buffer buffer = allocator.allocate(64 << 20, compute);
    fill(device, {buffer.address(), buffer.bytes()}, 1, compute);
    Event filled(device);
    filled.record(compute);
    side.wait(filled);
    fill(device, {buffer.address(), buffer.bytes()}, 2, side);
    buffer.record_stream(side);  // defers reuse until `side` is done
  }
  const AllocatorStats stats = allocator.stats();
  std::printf("allocated %lld B, reserved %lld B\n",
              static_cast<long long>(stats.allocated_bytes.all.current),
              static_cast<long long>(stats.reserved_bytes.all.current));
  allocator.trim();  // waits for `side`, then returns the memory
  return allocator.stats().reserved_bytes.all.current == 0 ? 0 : 1;
}
