// SPDX-License-Identifier: Apache-2.0
//
// What an Allocator is made of. For src/api alone.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "api/shown_allocators.h"
#include "ashlar/allocator.h"
#include "engine/engine.h"
#include "share/imports.h"
#include "share/share_server.h"

namespace ashlar {

struct Allocator::Parts {
  Device& device;
  const AllocatorOptions options;
  std::unique_ptr<Engine> engine;
  // Relaxed: only uniqueness matters.
  std::atomic<uint64_t> last_user_pool{0};
  std::atomic<uint64_t> last_capture_pool{0};
  ShareServer shares{*engine};  // ends before the engine whose blocks it holds
  Imports imports{device};
  std::optional<ShownAllocators::Entry> shown{};  // empty before it is made, and while it ends

  Parts(Device& its_device, const AllocatorOptions& its_options);
  // Of whoever keeps plain addresses. Throws where none is allocated there.
  Block* block_at(DeviceAddress address);
};

// For the border to C, which calls the engine directly where time counts.
struct AllocatorParts {
  static Allocator::Parts& of(const Allocator& allocator) { return *allocator.parts_; }
  using Type = Allocator::Parts;
};

// What is said of an address that nobody was given, or that was freed.
Status not_an_allocation(DeviceAddress address);

}  // namespace ashlar
