// SPDX-License-Identifier: Apache-2.0
//
// A minimal program that uses the installed library and only its public headers: copies numbers to
// a simulated device and back, and compares.
#include <ashlar/ashlar.h>

#include <cstdio>
#include <numeric>
#include <vector>

int main() try {
  const auto machine = ashlar::sim::Machine::create({.device_count = 1});
  ashlar::Device& device = machine->device(ashlar::DeviceIndex(0));
  ashlar::Allocator allocator(device);
  ashlar::Stream stream(device);

  std::vector<int> sent(100'000);
  std::iota(sent.begin(), sent.end(), 0);
  std::vector<int> received(sent.size());
  const ashlar::Buffer buffer = allocator.allocate(sent.size() * sizeof(int), stream);
  ashlar::copy_to_device(device, buffer.address(), sent, stream);
  ashlar::copy_to_host(device, received, buffer.address(), stream);
  stream.synchronize();

  std::printf("%zu numbers copied to the device and back: %s\n", sent.size(),
              sent == received ? "equal" : "different");
  return sent == received ? 0 : 1;
} catch (const std::exception& error) {
  std::printf("failed: %s\n", error.what());
  return 1;
}
