// SPDX-License-Identifier: Apache-2.0
//
// Device memory with a single owner: what `Allocator::allocate` returns.
//
// Errors: functions throw.
#pragma once

#include <cstddef>

#include "ashlar/export.h"
#include "ashlar/types.h"

namespace ashlar {

struct AllocatorLiveness;
struct Block;
class Device;
class Engine;

// Owns one block of an allocator and frees it on destruction, without a lookup. Not thread safe.
//
// A buffer should not outlive its allocator, whose destructor returns all memory to the device.
// Once the allocator is destroyed, freeing the buffer does nothing, and record_stream throws
// InvalidArgument.
class ASHLAR_EXPORT Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() {
    if (block_ != nullptr) reset();
  }

  DeviceAddress address() const { return address_; }  // null if empty
  size_t bytes() const { return bytes_; }             // the requested size
  explicit operator bool() const { return !address_.is_null(); }

  // Declares that work on `stream` uses the buffer: after the free, the memory is not reused before
  // the work that is queued on `stream` at the time of the free is done. The call is not needed for
  // the stream of the allocation. Throws InvalidArgument if the buffer is empty.
  void record_stream(StreamId stream);
  // Like the function above, for a stream of another device.
  void record_stream(Device& device, StreamId stream);

  // Frees the memory. If the free fails with a device error, the allocator's next allocate or trim
  // throws that error. If several frees failed, only the first error is thrown.
  void reset() noexcept;
  // Releases ownership without freeing. Call this function for buffers whose address is in
  // RestoredPool::freed, because their blocks are no longer allocated.
  void release() noexcept {
    engine_ = nullptr;
    liveness_ = nullptr;
    block_ = nullptr;
    address_ = {};
    bytes_ = 0;
  }

 private:
  friend class Allocator;
  friend class AllocatorPools;
  friend class AllocatorSharing;
  Buffer(Engine& engine, const AllocatorLiveness& liveness, Block* block, size_t bytes);
  void check_usable() const;

  Engine* engine_ = nullptr;                     // dangling once the allocator is destroyed
  const AllocatorLiveness* liveness_ = nullptr;  // valid for the lifetime of the buffer
  Block* block_ = nullptr;
  DeviceAddress address_;
  size_t bytes_ = 0;
};

}  // namespace ashlar
