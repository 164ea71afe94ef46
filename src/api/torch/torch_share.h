// SPDX-License-Identifier: Apache-2.0
//
// Shares the memory of PyTorch's tensors between processes. A share ends when its memory is freed,
// because PyTorch keeps a shared tensor until all importers have released it. Thread safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "api/allocator_impl.h"
#include "base/mutex.h"

namespace ashlar::torch {

// The shares and imports of one allocator.
class TorchShares {
 public:
  // REQUIRES: the allocator and its engine outlive this object.
  TorchShares(Allocator& allocator, Engine& engine) : allocator_(allocator), engine_(engine) {}

  struct Handle {
    std::string bytes;
    ptrdiff_t offset = 0;  // from the address that `open` returns to the memory
  };
  // Shares the allocation that starts at the address. Memory of a plain device allocation has a
  // handle in PyTorch's format, which any PyTorch process can open. Mapped memory has a handle in
  // Ashlar's format. Throws like AllocatorSharing::share.
  Handle share(DeviceAddress address);
  // Removes and returns the share of the address, for memory that is about to be freed. Returns an
  // empty share if the address has none.
  Share take(DeviceAddress address);
  void end(DeviceAddress address) { take(address).reset(); }
  // Opens a handle. When the last copy of the result is destroyed, the memory is closed after the
  // work that is queued in the stream at that time. Throws like AllocatorSharing::open.
  std::shared_ptr<void> open(std::string_view handle, StreamId stream);

  // Returns whether any allocator has shares. Relaxed order suffices, because the share of a memory
  // range happens before its free.
  static bool has_any() { return total_count.load(std::memory_order_relaxed) != 0; }

 private:
  static constinit std::atomic<size_t> total_count;

  Allocator& allocator_;
  Engine& engine_;
  Mutex mutex_;
  std::map<DeviceAddress, Share> shares_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::torch
