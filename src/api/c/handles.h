// SPDX-License-Identifier: Apache-2.0
//
// What stands behind the opaque handles of include/ashlar/c/ashlar.h.
#pragma once

#include <memory>
#include <string>

#include "api/allocator_parts.h"
#include "api/c/border.h"
#include "ashlar/allocator.h"

// NOLINTBEGIN(readability-identifier-naming): the names are C's.

struct ashlar_bytes {
  std::string text;
};

struct ashlar_plugin {
  std::shared_ptr<ashlar::SegmentSource> source;  // shared with the pools made with it
};

// The engine is the allocator's own, at hand for the fast path.
struct ashlar_allocator {
  ashlar_allocator(ashlar::Device& device, const ashlar::AllocatorOptions& options)
      : allocator(device, options), engine(*ashlar::AllocatorParts::of(allocator).engine) {}

  ashlar::Allocator allocator;
  ashlar::Engine& engine;
};

// NOLINTEND(readability-identifier-naming)

namespace ashlar::c_api {

// A device's handle is the device, a block's the block: nothing has to be kept for them.
inline ashlar_device* handle_of(Device* device) { return reinterpret_cast<ashlar_device*>(device); }
inline Device& device_of(ashlar_device* device) { return *reinterpret_cast<Device*>(device); }
inline const Device& device_of(const ashlar_device* device) {
  return *reinterpret_cast<const Device*>(device);
}
inline ashlar_block* handle_of(Block* block) { return reinterpret_cast<ashlar_block*>(block); }
inline Block* block_of(ashlar_block* block) { return reinterpret_cast<Block*>(block); }
inline const Block* block_of(const ashlar_block* block) {
  return reinterpret_cast<const Block*>(block);
}

inline ashlar_bytes* give_bytes(std::string text) {
  return std::make_unique<ashlar_bytes>(ashlar_bytes{std::move(text)}).release();
}

}  // namespace ashlar::c_api
