// SPDX-License-Identifier: Apache-2.0
//
// Quoted in docs/tutorials/first_program.md: a loop that allocates like a training job, its
// statistics, an allocation that fails, and a snapshot for the command line tool.
#include <cstdio>

#include "ashlar/ashlar.h"

using namespace ashlar;

constexpr size_t kMiB = size_t{1} << 20;

static void run_step(Allocator& allocator, size_t length) {
  const Region region(allocator, "step");
  const Buffer activations = allocator.allocate(length * 48 * kMiB);
  const Buffer gradients = allocator.allocate(length * 16 * kMiB);
}  // the buffers are freed here

int main() {
  const auto machine = sim::Machine::create();
  Allocator allocator(machine->device(DeviceIndex(0)));
  allocator.history().start({.context = RecordContext::kAll});

  const Buffer weights = allocator.allocate(512 * kMiB);
  for (size_t step = 0; step < 100; ++step) run_step(allocator, step % 7 + 1);

  const AllocatorStats stats = allocator.stats();
  std::printf("peak: %lld MiB requested, %lld MiB reserved\n",
              static_cast<long long>(stats.requested_bytes.all.peak) / (1 << 20),
              static_cast<long long>(stats.reserved_bytes.all.peak) / (1 << 20));

  allocator.set_memory_fraction(0.01);  // 1 % of 141 GiB
  try {
    const Buffer too_large = allocator.allocate(4096 * kMiB);
  } catch (const OutOfMemory& error) {
    std::printf("%s\n", error.what());
  }
  save_snapshot(allocator.snapshot(), "first.pickle");
}
