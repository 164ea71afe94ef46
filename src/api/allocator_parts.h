// What an Allocator is made of. For src/api alone.
#pragma once

#include <atomic>
#include <memory>

#include "ashlar/allocator.h"
#include "engine/block_table.h"
#include "engine/engine.h"

namespace ashlar {

struct Allocator::Parts {
  Device& device;
  const AllocatorOptions options;
  std::unique_ptr<Engine> engine;
  BlockTable raw{};  // blocks handed out as plain addresses
  // Relaxed: only uniqueness matters.
  std::atomic<uint64_t> last_user_pool{0};
  std::atomic<uint64_t> last_capture_pool{0};

  Parts(Device& its_device, const AllocatorOptions& its_options);
};

}  // namespace ashlar
