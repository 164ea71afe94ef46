// SPDX-License-Identifier: Apache-2.0
//
// Quoted in docs/how-to/host_memory.md: copies to a device through pinned staging buffers, which
// are reused as soon as each copy is done.
#include <cstdio>
#include <numeric>

#include "ashlar/ashlar.h"

using namespace ashlar;

int main() {
  const auto machine = sim::Machine::create();
  Device& device = machine->device(DeviceIndex(0));
  Stream stream(device);
  Allocator allocator(device);
  const Buffer destination = allocator.allocate(1 << 20, stream);

  HostAllocator host(device);
  for (int round = 0; round < 100; ++round) {
    HostBuffer staging = host.allocate(1 << 20);
    std::iota(staging.as<int>().begin(), staging.as<int>().end(), round);
    copy_to_device(device, destination.address(), staging.as<int>(), stream);
    staging.record_stream(stream);  // defers reuse until the copy is done
    if (round % 10 == 9) stream.synchronize();
  }
  stream.synchronize();
  host.trim();
  const HostStats stats = host.stats();
  std::printf("100 buffers, %s of them newly pinned, %lld B left\n",
              stats.host_allocs <= 10 ? "at most ten" : "many",
              static_cast<long long>(stats.allocated_bytes.current));
}
