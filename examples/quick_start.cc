// SPDX-License-Identifier: Apache-2.0
//
// Quoted in README.md: copies three numbers to a simulated device, doubles them there, and copies
// them back.
#include <cstdio>

#include "ashlar/ashlar.h"

using namespace ashlar;

int main() {
  const auto machine = sim::Machine::create();  // two simulated devices of 141 GiB
  Device& device = machine->device(DeviceIndex(0));
  Allocator allocator(device);
  Stream stream(device);

  float numbers[] = {1.5F, 20.0F, 300.0F};
  const Buffer buffer = allocator.allocate(sizeof numbers, stream);  // freed at end of scope
  copy_to_device(device, buffer.address(), numbers, stream);
  machine->launch(DeviceIndex(0), stream, [&](const sim::DeviceMemory& memory) {
    for (float& number : memory.view<float>(buffer.address(), 3)) number *= 2;
    return Status();
  });
  copy_to_host(device, numbers, buffer.address(), stream);
  stream.synchronize();
  std::printf("ok: %g %g %g\n", numbers[0], numbers[1], numbers[2]);
}
