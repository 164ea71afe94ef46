// SPDX-License-Identifier: Apache-2.0
//
// What somebody else's program would do first: make a machine, allocate, copy there and back, and
// compare. It knows nothing of Ashlar but its public headers.
#include <ashlar/sim.h>

#include <cstdio>
#include <numeric>
#include <vector>

namespace {

ashlar::Status there_and_back(ashlar::Device& device, const std::vector<int>& sent,
                              std::vector<int>& received) {
  const size_t bytes = sent.size() * sizeof(int);
  const ashlar::Result<ashlar::DeviceAddress> at = device.allocate(bytes);
  if (!at.ok()) return at.status();
  const ashlar::Result<ashlar::StreamId> stream = device.create_stream();
  if (!stream.ok()) return stream.status();

  ashlar::Status status = device.copy_to_device(*at, sent.data(), bytes, *stream);
  if (status.ok()) status = device.copy_to_host(received.data(), *at, bytes, *stream);
  if (status.ok()) status = device.synchronize_stream(*stream);
  if (status.ok()) status = device.destroy_stream(*stream);
  if (status.ok()) status = device.free(*at);
  return status;
}

}  // namespace

int main() {
  ashlar::sim::Options options;
  options.device_count = 1;
  const auto machine = ashlar::sim::Machine::create(options);
  if (!machine.ok()) {
    std::printf("no machine: %s\n", machine.status().to_string().c_str());
    return 1;
  }

  std::vector<int> sent(100'000);
  std::iota(sent.begin(), sent.end(), 0);
  std::vector<int> received(sent.size());
  const ashlar::Status status =
      there_and_back((*machine)->device(ashlar::DeviceIndex(0)), sent, received);
  if (!status.ok()) {
    std::printf("failed: %s\n", status.to_string().c_str());
    return 1;
  }
  std::printf("%zu numbers went there and back, %s\n", sent.size(),
              sent == received ? "unharmed" : "and changed on the way");
  return sent == received ? 0 : 1;
}
