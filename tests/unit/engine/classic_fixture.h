// SPDX-License-Identifier: Apache-2.0
//
// A fixture with a classic engine on a simulated device, and a trace of its operations.
#pragma once

#include <vector>

#include "engine/classic/classic_engine.h"
#include "unit/engine/engine_fixture.h"

namespace ashlar::classic {

inline constexpr PoolId kUserPool{0, 1};
inline constexpr PoolId kGraphPool{1, 0};

class ClassicFixture : public EngineFixture<ClassicEngine> {
 protected:
  void start(const AllocatorOptions& options = {}, size_t capacity_bytes = kGiB) {
    EngineFixture::start(options, capacity_bytes);
    engine_->add_tracker([this](const TraceEntry& entry) { trace_.push_back(entry); });
  }

  // Allocates and frees a block of `bytes`, which leaves free memory in the cache. Returns its
  // address.
  DeviceAddress cache(size_t bytes, StreamId stream = kDefaultStream) {
    Block* block = allocate(bytes, stream);
    const DeviceAddress address = block->address;
    free(block);
    return address;
  }
  // Returns the device operations since the last call of this function.
  std::vector<TraceAction> device_operations() {
    std::vector<TraceAction> operations;
    for (const TraceEntry& entry : std::exchange(trace_, {})) {
      const bool is_block_action = entry.action == TraceAction::kAlloc ||
                                   entry.action == TraceAction::kFreeRequested ||
                                   entry.action == TraceAction::kFreeCompleted;
      if (!is_block_action) operations.push_back(entry.action);
    }
    return operations;
  }
  // Makes `count` calls of this kind fail with kOutOfMemory, starting with the `nth` call from now.
  void inject_out_of_memory(DeviceCall call, uint64_t count, uint64_t nth = 1) {
    machine_->inject(
        {.call = call, .nth = nth, .count = count, .status = Status::out_of_memory("injected")});
  }

  std::vector<TraceEntry> trace_;
};

}  // namespace ashlar::classic
