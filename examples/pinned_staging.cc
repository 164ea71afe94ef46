// SPDX-License-Identifier: Apache-2.0
//
// Numbers go to a device through pinned memory, which is ready for the next round as soon as the
// copy is done.
#include <cstdio>
#include <numeric>

#include "ashlar/host.h"
#include "ashlar/sim.h"

using namespace ashlar;

int main() {
  const auto machine = sim::Machine::create({});
  if (!machine.ok()) return 1;
  Device& device = (*machine)->device(DeviceIndex(0));
  const StreamId stream = *device.create_stream();
  const DeviceAddress at = *device.allocate(1 << 20);

  HostAllocator host(device);
  for (int round = 0; round < 100; ++round) {
    HostBuffer staging = host.allocate(1 << 20);
    std::iota(staging.as<int>().begin(), staging.as<int>().end(), round);
    if (!device.copy_to_device(at, staging.data(), staging.bytes(), stream).ok()) return 1;
    staging.record_stream(stream);  // not used again before `stream` has got here
    if (round % 10 == 9 && !device.synchronize_stream(stream).ok()) return 1;
  }
  if (!device.synchronize_stream(stream).ok()) return 1;
  host.trim();
  const HostStats stats = host.stats();
  std::printf("100 buffers, %s of them pinned anew, %lld B left\n",
              stats.host_allocs <= 10 ? "at most ten" : "many",
              static_cast<long long>(stats.allocated_bytes.current));
  return device.free(at).ok() ? 0 : 1;
}
