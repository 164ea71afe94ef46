// SPDX-License-Identifier: Apache-2.0
//
// The first thing to try, quoted in README.md: three numbers go to memory of a simulated device,
// work on the device doubles them there, and they come back.
#include <cstdio>

#include "ashlar/allocator.h"
#include "ashlar/sim.h"

using namespace ashlar;

int main() {
  const auto machine = sim::Machine::create({});  // two devices of 141 GiB each
  if (!machine.ok()) return 1;
  Device& device = (*machine)->device(DeviceIndex(0));
  Allocator allocator(device);

  float numbers[] = {1.5F, 20.0F, 300.0F};
  const Buffer buffer = allocator.allocate(sizeof numbers);  // freed where its scope ends
  const DeviceAddress at = buffer.address();
  const auto twice = [&](const sim::DeviceMemory& memory) {
    const auto on_device = memory.view<float>(at, 3);
    if (!on_device.ok()) return on_device.status();
    for (float& number : *on_device) number *= 2;
    return Status();
  };

  Status status = device.copy_to_device(at, numbers, sizeof numbers, kDefaultStream);
  if (status.ok()) status = (*machine)->launch(DeviceIndex(0), kDefaultStream, twice);
  if (status.ok()) status = device.copy_to_host(numbers, at, sizeof numbers, kDefaultStream);
  if (status.ok()) status = device.synchronize_stream(kDefaultStream);
  std::printf("%s: %g %g %g\n", status.to_string().c_str(), numbers[0], numbers[1], numbers[2]);
}
