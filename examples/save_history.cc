// SPDX-License-Identifier: Apache-2.0
//
// Quoted in docs/how-to/history.md: records the history of an allocator with call stacks, and saves
// it in PyTorch's snapshot format.
#include <cstdio>

#include "ashlar/ashlar.h"

using namespace ashlar;

static Buffer load_weights(Allocator& allocator) { return allocator.allocate(64 << 20); }

int main(int argument_count, char** arguments) {
  const auto machine = sim::Machine::create();
  Allocator allocator(machine->device(DeviceIndex(0)));

  HistoryOptions history;
  history.context = RecordContext::kAll;  // stacks of allocations and frees
  allocator.history().start(history);
  const Buffer weights = load_weights(allocator);
  {
    const Region step(allocator, "step 1");
    for (size_t layer = 1; layer <= 4; ++layer) {
      const Buffer activations = allocator.allocate(layer * 3'000'000);
    }
  }
  const Snapshot snapshot = allocator.snapshot();
  std::printf("%zu entries; segments: %zu\n", snapshot.device_traces[0].size(),
              snapshot.segments.size());
  if (argument_count > 1) save_snapshot(snapshot, arguments[1]);
}
