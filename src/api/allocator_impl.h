// SPDX-License-Identifier: Apache-2.0
//
// The implementation of Allocator. For src/api only.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "api/allocator_registry.h"
#include "api/unwrap.h"
#include "ashlar/allocator.h"
#include "engine/engine.h"

namespace ashlar {

// Lets a Buffer detect that its allocator was destroyed. An allocator that is destroyed while
// blocks are allocated never frees its AllocatorLiveness, because buffers may still refer to it.
struct AllocatorLiveness {
  bool is_alive = true;
  AllocatorLiveness* next_retained = nullptr;  // in the list of flags that are never freed
};

struct Allocator::Impl {
  Impl(Device& device_arg, const AllocatorOptions& options_arg);
  ~Impl();

  Device& device;
  const AllocatorOptions options;
  std::unique_ptr<AllocatorLiveness> liveness = std::make_unique<AllocatorLiveness>();
  std::unique_ptr<Engine> engine;
  AllocatorPools pools{*engine, *liveness};
  AllocatorHistory history{*engine};
  AllocatorSharing sharing{*engine};  // destroyed before the engine whose blocks it pins
  AllocatorStatistics statistics{*engine};
  AllocatorHooks hooks{*engine};
  std::optional<DeviceAllocatorRegistry::Registration> registration{};  // set after construction
};

// Gives other files of src/api access to the implementation. The C API calls the engine directly on
// its fast path.
struct AllocatorAccess {
  static Allocator::Impl& impl(const Allocator& allocator) { return *allocator.impl_; }
  // Makes AllocatorPools::create and create_for_capture issue ids above `base`, for an allocator
  // whose caller chooses the ids of other pools itself. REQUIRES: no pool was created yet.
  static void start_pool_ids_above(AllocatorPools& pools, uint64_t base);
};

// Returns `engine`. Throws InvalidArgument in a forked child of the process that created it.
inline Engine& usable(Engine& engine) {
  if (!engine.in_creating_process()) [[unlikely]]
    unwrap(engine.check_not_forked());
  return engine;
}

// Returns the block of an address that allocate_raw returned. Throws InvalidArgument if no block is
// allocated at the address, and in a forked child.
Block* block_at(Engine& engine, DeviceAddress address);

// Returns the stack that was recorded for an address that allocate_raw returned, innermost frame
// first. Empty if none was recorded, or if a StackRecorder recorded it. Throws like block_at.
std::vector<Frame> stack_of(Engine& engine, DeviceAddress address);

// Returns the error for an address that is not allocated.
Status not_an_allocation_error(DeviceAddress address);

}  // namespace ashlar
