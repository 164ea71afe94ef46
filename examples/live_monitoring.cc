// SPDX-License-Identifier: Apache-2.0
//
// Quoted in docs/how-to/monitoring.md: serves its metrics and a live view while it allocates memory
// like a training loop.
//
//   live_monitoring [STEPS [PORT TOKEN]]
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "ashlar/ashlar.h"

using namespace ashlar;

static void train_step(Allocator& allocator, size_t step) {
  const Region region(allocator, "train_step");
  const size_t batch = 1 + step % 8;
  std::vector<Buffer> activations;
  for (size_t layer = 1; layer <= 4; ++layer) {
    activations.push_back(allocator.allocate(batch * layer * 3'000'000));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the computation
}

int main(int argument_count, char** arguments) {
  const size_t steps = argument_count > 1 ? std::strtoul(arguments[1], nullptr, 10) : 600;
  LiveOptions options{.port = 0};  // any free port, with a random token
  if (argument_count > 3) {
    options.port = static_cast<uint16_t>(std::atoi(arguments[2]));
    options.token = arguments[3];
  }
  const LiveServer live(options);
  std::printf("ashlar top %d\nashlar view --live %d\ncurl %smetrics\n", ::getpid(), ::getpid(),
              live.url().c_str());
  std::fflush(stdout);

  const auto machine = sim::Machine::create();
  Allocator allocator(machine->device(DeviceIndex(0)));
  // Optional: snapshots in the viewer also show the latest operations, with call stacks.
  allocator.history().start({.context = RecordContext::kAll});
  const Buffer weights = allocator.allocate(512 << 20);
  for (size_t step = 1; step <= steps; ++step) train_step(allocator, step);
  std::printf("%zu steps; peak: %lld MiB allocated\n", steps,
              static_cast<long long>(allocator.stats().allocated_bytes.all.peak >> 20));
}
