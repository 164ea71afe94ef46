// SPDX-License-Identifier: Apache-2.0
//
// The types behind the opaque handles of include/ashlar/c/ashlar.h.
#pragma once

#include <memory>
#include <string>

#include "api/allocator_impl.h"
#include "api/c/boundary.h"
#include "ashlar/allocator.h"

// NOLINTBEGIN(readability-identifier-naming): names of the C API.

struct ashlar_bytes {
  std::string text;
};

struct ashlar_plugin {
  std::shared_ptr<ashlar::SegmentSource> source;  // shared with the pools that use it
};

// Keeps a reference to the allocator's engine, for the fast path.
struct ashlar_allocator {
  ashlar_allocator(ashlar::Device& device, const ashlar::AllocatorOptions& options)
      : allocator(device, options), engine(*ashlar::AllocatorAccess::impl(allocator).engine) {}

  ashlar::Allocator allocator;
  ashlar::Engine& engine;
};

// NOLINTEND(readability-identifier-naming)

namespace ashlar::c_api {

// Conversions between handles and pointers: the handle of a device or a block is its address.
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

// Creates a byte string, which the caller must destroy.
inline ashlar_bytes* make_bytes(std::string text) {
  return std::make_unique<ashlar_bytes>(ashlar_bytes{std::move(text)}).release();
}

}  // namespace ashlar::c_api
