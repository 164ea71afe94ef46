// SPDX-License-Identifier: Apache-2.0
//
// Pinned host memory for containers of the standard library:
//
//   ashlar::HostAllocator host(device);
//   ashlar::PinnedResource pinned(host);
//   std::pmr::vector<float> staging(1 << 20, &pinned);
//
// A device copies from that memory without help of the processor. Each allocation is one of the
// HostAllocator, which caches them by size, and rounds to pages. For many small ones, put a pool of
// the standard library in between: std::pmr::synchronized_pool_resource(&pinned).
//
// Memory that queued work still uses must not be freed, unless the HostAllocator was told of the
// stream (HostAllocator::record_stream). That does not reach through a pool in between, which uses
// freed memory again at once.
#pragma once

#include <cstddef>
#include <memory_resource>

#include "ashlar/export.h"

namespace ashlar {

class HostAllocator;

// Any thread may call it. Equal to resources of the same HostAllocator, which outlives it. Throws
// OutOfMemory, which is a std::bad_alloc; or DeviceError.
class ASHLAR_EXPORT PinnedResource final : public std::pmr::memory_resource {
 public:
  explicit PinnedResource(HostAllocator& host) : host_(&host) {}
  HostAllocator& host() const { return *host_; }

 private:
  // Never null, also for 0 B.
  void* do_allocate(size_t bytes, size_t alignment) override;
  // A device's failure is told by the HostAllocator's next call. Memory that is not of it:
  // InvalidArgument.
  void do_deallocate(void* memory, size_t bytes, size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override;

  HostAllocator* host_;
};

}  // namespace ashlar
