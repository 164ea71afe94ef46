// SPDX-License-Identifier: Apache-2.0
//
// Obtains pinned memory: first from the reserve segment, then, as the options select, from
// Device::allocate_host or from the host heap. Heap pages are touched by up to
// register_thread_count threads and then registered, which is much faster than
// Device::allocate_host for large sizes. Caches nothing. Thread safe.
#pragma once

#include <optional>

#include "ashlar/device.h"
#include "ashlar/options.h"
#include "base/mutex.h"
#include "host/pinned_block.h"

namespace ashlar {

class PinnedSource {
 public:
  PinnedSource(Device& device, const PinnedOptions& options) : device_(device), options_(options) {}
  // Releases the reserve segment. REQUIRES: no part of the segment is in use.
  ~PinnedSource();
  PinnedSource(const PinnedSource&) = delete;
  PinnedSource& operator=(const PinnedSource&) = delete;

  // Allocates the reserve segment if the options request one. Must be called once, before `obtain`.
  Status reserve();

  // Obtains memory. REQUIRES: `bytes` is below PinnedSizePolicy::kRequestLimitBytes. kOutOfMemory:
  // the host does not have enough memory left.
  Result<PinnedMemory> obtain(size_t bytes);
  // Releases memory. On failure the memory stays pinned and usable. REQUIRES: `memory` is not part
  // of the reserve segment.
  Status release(const PinnedMemory& memory);

  // Returns the number of bytes of the reserve segment that `obtain` has handed out. Never
  // decreases, because no range of the segment is handed out twice.
  size_t reserve_used_bytes() const;
  size_t reserve_bytes() const;

 private:
  // Obtains memory without using the reserve segment.
  Result<PinnedMemory> obtain_fresh(size_t bytes);
  Result<PinnedMemory> obtain_registered(size_t bytes);
  std::optional<PinnedMemory> take_reserved(size_t bytes);

  Device& device_;
  const PinnedOptions options_;

  mutable Mutex mutex_;
  PinnedMemory reserve_ ASHLAR_GUARDED_BY(mutex_);  // the reserve segment; may be empty
  size_t reserve_used_bytes_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

}  // namespace ashlar
