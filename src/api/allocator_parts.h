// What an allocator is made of. For the files of the facade only.
#pragma once

#include <atomic>

#include "ashlar/allocator.h"
#include "engine/block_table.h"
#include "engine/classic/classic_engine.h"
#include "share/imports.h"
#include "share/share_server.h"

namespace ashlar {

struct Allocator::Parts {
  Parts(Device& its_device, const AllocatorOptions& options)
      : device(its_device), engine(its_device, options) {}

  Device& device;
  classic::ClassicEngine engine;
  BlockTable raw;  // blocks handed out as plain addresses
  // Relaxed: only uniqueness matters.
  std::atomic<uint64_t> last_user_pool{0};
  std::atomic<uint64_t> last_capture_pool{0};
  ShareServer shares{engine};  // ends before the engine whose blocks it holds
  Imports imports{device};
};

// What is said of an address that nobody was given, or that was freed.
Status not_an_allocation(DeviceAddress address);

}  // namespace ashlar
